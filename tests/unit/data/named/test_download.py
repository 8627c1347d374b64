"""The downloader, against a real server on this machine."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from multidomain.data.named.download import RemoteFile, download
from multidomain.errors import FetchError

CONTENT = np.random.default_rng(0).bytes(300_000)


class Server:
    """A server of one file, and what it is to do wrong."""

    def __init__(self):
        self.ranges = True
        self.break_after: int | None = None
        self.status = 200
        self.content = CONTENT
        self.requests: list[str | None] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                owner.answer(self)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/data/file.bin"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, handler):
        asked = handler.headers.get("Range")
        self.requests.append(asked)
        if self.status != 200:
            handler.send_error(self.status)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0
        if start and start >= len(self.content):
            handler.send_error(416)
            return
        body = self.content[start:]
        handler.send_response(206 if asked and self.ranges else 200)
        handler.send_header("Content-Length", str(len(body)))
        if asked and self.ranges:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        handler.end_headers()
        handler.wfile.write(body if self.break_after is None else body[: self.break_after])

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.stop()


def fetch(server, folder, content=CONTENT, **options):
    file = RemoteFile(server.url, hashlib.sha256(content).hexdigest(), "sub/file.bin")
    download([file], folder, corpus="amazon", timeout=5, **options)
    return folder / "sub" / "file.bin"


def test_a_file_comes_whole_and_once(server, tmp_path):
    seen = []
    target = fetch(server, tmp_path, progress=lambda file, done: seen.append((file.path, done)))
    assert target.read_bytes() == CONTENT
    assert seen[-1] == ("sub/file.bin", len(CONTENT))
    assert [done for _, done in seen] == sorted(done for _, done in seen)
    assert [p.name for p in target.parent.iterdir()] == ["file.bin"]
    fetch(server, tmp_path)
    assert len(server.requests) == 1


def test_a_broken_transfer_is_kept_and_goes_on(server, tmp_path):
    server.break_after = 100_000
    with pytest.raises(FetchError, match="the connection broke off; what came is kept"):
        fetch(server, tmp_path)
    assert not (tmp_path / "sub/file.bin").exists()
    assert (tmp_path / "sub/file.bin.part").read_bytes() == CONTENT[:100_000]
    server.break_after = None
    seen = []
    assert fetch(server, tmp_path, progress=lambda file, done: seen.append(done)).read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-"]
    assert seen[0] > 100_000
    assert seen[-1] == len(CONTENT)


def test_a_server_without_ranges_starts_anew(server, tmp_path):
    server.ranges = False
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file.bin.part").write_bytes(CONTENT[:50_000])
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.requests == ["bytes=50000-"]


@pytest.mark.parametrize("size", [1000, len(CONTENT), len(CONTENT) + 5])
def test_a_spoilt_part_is_fetched_anew_once(server, tmp_path, size):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file.bin.part").write_bytes(b"x" * size)
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.requests == [f"bytes={size}-", None]


def test_a_complete_part_needs_no_transfer(server, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file.bin.part").write_bytes(CONTENT)
    assert fetch(server, tmp_path).read_bytes() == CONTENT


def test_a_spoilt_file_is_replaced(server, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file.bin").write_bytes(b"old")
    assert fetch(server, tmp_path).read_bytes() == CONTENT


def test_another_content(server, tmp_path):
    server.content = b"another file"
    digest = hashlib.sha256(b"another file").hexdigest()
    with pytest.raises(FetchError, match=rf"the file has another content than expected \(SHA-256 {digest}, expected"):
        fetch(server, tmp_path)
    assert list((tmp_path / "sub").iterdir()) == []
    assert len(server.requests) == 1


def test_not_found_tells_the_way_by_hand(server, tmp_path):
    server.status = 404
    with pytest.raises(FetchError) as caught:
        fetch(server, tmp_path)
    message = str(caught.value)
    assert message.startswith(f"Could not download {server.url}: the server answered 404 Not Found. By hand: ")
    assert f"save it as '{tmp_path / 'sub' / 'file.bin'}'" in message
    assert "<folder>/amazon and set MULTIDOMAIN_DATA=<folder>" in message


def test_no_server(server, tmp_path):
    server.stop()
    with pytest.raises(FetchError, match=r"Could not download http://127\.0\.0\.1:.*refused.* By hand: fetch it"):
        fetch(server, tmp_path)


def test_a_folder_that_cannot_be_made(server, tmp_path):
    (tmp_path / "sub").write_text("a file where the folder should be")
    with pytest.raises(FetchError, match="Could not download"):
        fetch(server, tmp_path)
