"""Redirects of web pages: never from a server elsewhere to this machine or its network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

import pytest
from aiohttp import web

from support.mediawiki import Fault, Wiki, WikiServer
from support.threaded_server import ThreadedServer
from tiltmeter.benchmarks._builder import Manners, SourcePage, Wikipedia, collect_pages, read_urls
from tiltmeter.benchmarks._builder.addresses import is_local, leads_to_local

HTML = "text/html; charset=utf-8"
SECRET = "<p>The password of the router is tiger.</p>"
FOUND = "<p>Tea is a drink.</p>"
HERE = ("127.0.0.1",)


class PublicServer(ThreadedServer):
    """Proxy that answers for servers elsewhere: an address -> where it redirects, or a page."""

    def __init__(self, redirects: Mapping[str, str]) -> None:
        super().__init__()
        self._redirects = redirects
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(str(request.url))
        place = self._redirects.get(str(request.url))
        if place is None:
            return web.Response(text=FOUND, content_type="text/html")
        return web.Response(status=302, headers={"Location": place})


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (
        "no_proxy",
        "NO_PROXY",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def fetched(url: str, folder: Path, *local: str) -> SourcePage:
    [(_, page, _)] = read_urls(
        {"Tea": [url]}, cache=folder, manners=Manners(rate=1000, pause=0.01, tries=2, local=local)
    )
    return page


@pytest.mark.parametrize(
    "place",
    [
        "http://127.0.0.1:{port}/secret",
        "http://localhost:{port}/secret",
        "//127.0.0.1:{port}/secret",
        "http://2130706433:{port}/secret",
        "http://127.1:{port}/secret",
        "http://0.0.0.0:{port}/secret",
        "http://[::1]:{port}/secret",
        "http://[::ffff:127.0.0.1]:{port}/secret",
        "http://[64:ff9b::7f00:1]:{port}/secret",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://[fd00::1]/",
        "http://second.invalid/hop",
        "file:///etc/passwd",
        "http://[",
    ],
)
def test_a_page_elsewhere_does_not_lead_to_this_machine(
    tmp_path: Path, proxied: pytest.MonkeyPatch, place: str
) -> None:
    with WikiServer(Wiki(), files={"/secret": (HTML, SECRET.encode())}) as machine:
        port = machine.root.rpartition(":")[2]
        redirects = {
            "http://first.invalid/tea": place.format(port=port),
            "http://second.invalid/hop": f"{machine.root}/secret",
        }
        with PublicServer(redirects) as public:
            proxied.setenv("http_proxy", public.root)
            for local in ((), HERE):  # also if the spec names other pages of this machine
                page = fetched("http://first.invalid/tea", tmp_path, *local)
                assert page.status == "failed"
                assert "it redirects to" in str(page.problem)
                assert page.text == ""
        assert not machine.asked
        assert {url for url in public.asked if ".invalid/" not in url} == set()


def test_a_page_elsewhere_may_redirect_to_another(tmp_path: Path, proxied: pytest.MonkeyPatch) -> None:
    redirects = {
        "http://first.invalid/tea": "http://second.invalid/tea?a=b",
        "http://third.invalid/": "http://third.invalid/",
    }
    with PublicServer(redirects) as public:
        proxied.setenv("http_proxy", public.root)
        page = fetched("http://first.invalid/tea", tmp_path)
        endless = fetched("http://third.invalid/", tmp_path)
    assert (page.status, page.text) == ("ok", "Tea is a drink.")
    assert endless.problem == "it redirects more than 10 times"


def test_a_wiki_elsewhere_does_not_lead_to_this_machine(tmp_path: Path, proxied: pytest.MonkeyPatch) -> None:
    wiki = Wiki()
    wiki.add("Tea", SECRET)

    class PublicWiki(PublicServer):
        async def answer(self, request: web.Request) -> web.StreamResponse:
            self.asked.append(str(request.url))
            return web.Response(status=307, headers={"Location": f"{machine.api}?{request.query_string}"})

    with WikiServer(wiki) as machine, PublicWiki({}) as public:
        proxied.setenv("http_proxy", public.root)
        pages = collect_pages(
            {"Tea": ["Tea"]}, Wikipedia(api="http://wiki.invalid/api.php", rate=100), cache=tmp_path
        )
        assert public.asked
        assert not machine.asked
    assert [page.status for _, page, _ in pages] == ["failed"]


def test_a_page_of_this_machine_leads_to_its_own_server_only(
    tmp_path: Path, proxied: pytest.MonkeyPatch
) -> None:
    files = {"/tea": (HTML, FOUND.encode()), "/secret": (HTML, SECRET.encode())}
    with WikiServer(Wiki(), files=files) as target_server:
        places = {
            "/own": "/tea",
            "/port": f"{target_server.root}/secret",
            "/name": f"{target_server.root}/secret".replace("127.0.0.1", "127.0.0.2"),
        }
        faults = {path: Fault(status=301, headers={"Location": place}) for path, place in places.items()}
        with WikiServer(Wiki(), lambda page, nth: faults.get(page), files) as server:
            assert fetched(f"{server.root}/own", tmp_path, *HERE).text == "Tea is a drink."
            for path in ("/port", "/name"):
                assert "such redirects are not followed" in str(
                    fetched(server.root + path, tmp_path, *HERE).problem
                )
            assert not target_server.asked
            server.asked.clear()
            page = fetched(f"{server.root}/tea?not=cached", tmp_path)
            assert page.problem == "its host is an address of this machine or its network"
            assert not server.asked


@pytest.mark.parametrize(
    ("address", "local"),
    [
        *(
            ("8.8.8.8", False),
            ("2001:4860:4860::8888", False),
            ("64:ff9b::808:808", False),
            ("::ffff:8.8.8.8", False),
        ),
        *(
            ("127.8.9.1", True),
            ("10.1.2.3", True),
            ("172.16.0.1", True),
            ("192.168.0.9", True),
            ("169.254.169.254", True),
            ("0.0.0.0", True),
        ),
        *(
            ("100.64.0.1", True),
            ("224.0.0.1", True),
            ("255.255.255.255", True),
            ("::1", True),
            ("::", True),
            ("fe80::1%eth0", True),
        ),
        *(("fd12::1", True), ("::ffff:10.0.0.1", True), ("64:ff9b::a00:1", True), ("2002:7f00:1::", True)),
        *(
            ("fec0::5", True),
            ("64:ff9b:1::7f00:1", True),
            ("64:ff9b:1::808:808", True),
            ("::7f00:1", True),
            ("::808:808", False),
        ),
    ],
)
def test_addresses_of_this_machine_and_its_network(address: str, local: bool) -> None:
    assert is_local(address) == local


@pytest.mark.skipif(sys.platform != "linux", reason="a network of its own needs Linux")
@pytest.mark.verify
@pytest.mark.parametrize("address", ["93.184.216.34", "2a00:1450:4001::99"])
def test_a_public_address_of_this_machine_is_local(address: str) -> None:
    code = f"from tiltmeter.benchmarks._builder.addresses import is_local; assert is_local({address!r})"
    bits = 128 if ":" in address else 32
    added = f"ip addr add {address}/{bits} dev lo {'nodad' if bits == 128 else ''}"
    command = f"ip link set lo up && {added} && exec {sys.executable} -c {quote(code)}"
    if (
        shutil.which("ip") is None
        or subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("a network of its own is not permitted here")
    assert not is_local(address)
    done = subprocess.run(
        ["unshare", "-rn", "sh", "-c", command], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "http://no-such-host.invalid/",
        "http://[",
        "http:///path",
        "not a url",
        "http://\udc80/",
        "http://a\0b/",
    ],
)
def test_a_url_without_an_address_leads_nowhere(url: str) -> None:
    assert not leads_to_local(url)
