import pytest
import torch

from tests.encoders.tiny import write_gguf, write_model


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Tiny models are faster on one thread, and several tests run at once."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Folders of tiny models, by kind."""
    home = tmp_path_factory.mktemp("models")
    made = {kind: write_model(kind, home / kind) for kind in ("bert", "mpnet", "llama")}
    made["gguf"] = write_gguf(home / "plain.gguf", packed=False)
    made["packed"] = write_gguf(home / "packed.gguf", packed=True)
    return made


@pytest.fixture(params=["bert", "mpnet", "llama"])
def folder(request, folders):
    """Each of the three architectures in turn."""
    return folders[request.param]
