// Renders formulas with the KaTeX files of this site; nothing is loaded from elsewhere.
document.querySelectorAll(".arithmatex").forEach((element) => {
  const source = element.textContent.trim();
  katex.render(source.slice(2, -2), element, { displayMode: source.startsWith("\\[") });
});
