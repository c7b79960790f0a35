"""Pages as files: whole, of modules that fit together, and safe with any name in them."""

import re
import subprocess
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

import scheduler
from scheduler.tools.pages.shell import STATIC, STYLES, saved_page, served_page

MODULES = sorted(STATIC.glob("*.js"))
TOP_LEVEL = re.compile(
    r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)|^import \{ ([^}]*) \} from "
    r'"\./(\w+)\.js";$',
    re.MULTILINE,
)


def script_hashes(page: str, element: str) -> list[str]:
    """What a policy calls the contents of elements."""
    texts = re.findall(rf"<{element}(?: type=\"module\")?>(.*?)</{element}>", page, re.DOTALL)
    return [b64encode(sha256(text.encode()).digest()).decode() for text in texts]


def test_files_are_found_where_the_package_is_behind_a_link(tmp_path: Path) -> None:
    """The console compares real paths, so that no link leads out of the folder."""
    (tmp_path / "link").symlink_to(Path(scheduler.__file__).parents[1])
    code = "from scheduler.tools.pages.shell import STATIC; print(STATIC)"
    command = [sys.executable, "-c", code]

    found = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "link")},
        capture_output=True, check=True, text=True,
    )  # fmt: skip

    assert found.stdout.strip() == str(STATIC.resolve())


def test_a_saved_page_allows_its_own_scripts_and_styles_only() -> None:
    """By their hashes; nothing is fetched from anywhere."""
    page = saved_page("pod", {"pods": []}).decode()

    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    scripts, styles = script_hashes(page, "script"), script_hashes(page, "style")
    assert (len(scripts), len(styles)) == (2, len(STYLES))
    assert all(f"'sha256-{each}'" in policy for each in (*scripts, *styles))
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "import " not in page.partition('<script type="module">')[2].partition("</script>")[0]
    assert not re.search(r'(?:src|href)="(?!#)', page)


@pytest.mark.parametrize(
    "name", ["</script><script>alert(1)</script>", "<!--<script>", "\u2028", "</SCRIPT >"]
)
def test_a_name_cannot_leave_the_data_of_a_saved_page(name: str) -> None:
    """As JSON it has no character that ends or begins an element."""
    page = saved_page("now", {"pod": name}).decode()

    data = page.partition('id="saved">')[2].partition("</script>")[0]
    assert "<" not in data
    assert page.count("</script>") == saved_page("now", {}).decode().count("</script>")


def test_modules_use_what_others_export_and_share_no_name() -> None:
    """In a saved page they are one script."""
    exported: dict[str, set[str]] = {}
    imported: list[tuple[str, str]] = []
    names: list[str] = []
    unused: list[str] = []
    for module in MODULES:
        text = module.read_text()
        exported[module.stem] = set(
            re.findall(r"^export (?:async )?(?:function|const) (\w+)", text, re.MULTILINE)
        )
        for name, taken, other in TOP_LEVEL.findall(text):
            if name:
                names.append(name)
            imported += ((other, each) for each in taken.split(", ") if each)
            unused += (
                each for each in taken.split(", ") if len(re.findall(rf"\b{each}\b", text)) < 2
            )

    assert len(names) == len(set(names))
    assert [each for each in unused if each] == []
    assert [each for each in imported if each[1] not in exported[each[0]]] == []
    assert sum(len(taken) for taken in exported.values()) == len(set(imported))


def test_no_module_makes_markup_of_texts() -> None:
    """Names become text nodes; the few ways around that are not used."""
    ways = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")
    used = [(module.name, way) for module in MODULES for way in ways if way in module.read_text()]

    assert used == []


def test_a_served_page_has_no_inline_script() -> None:
    """Its policy would not run it."""
    page = served_page("what-if")

    assert re.findall(r"<script[^>]*>(.+?)</script>", page) == []
    assert "<style" not in page


def test_what_is_bundled_is_what_was_published() -> None:
    """Under the checksums that are written beside it; every file is listed, with its licence."""
    vendor = STATIC / "vendor"
    rows = re.findall(
        r"^\| `(\S+)` \| .* \| (\w+) \| `(\w{64})` \|$",
        (vendor / "README.md").read_text(),
        re.MULTILINE,
    )

    found = {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in vendor.iterdir()
        if path.name != "README.md"
    }
    assert {name: checksum for name, _, checksum in rows} == found
    assert {licence for _, licence, _ in rows} == {"MIT"}
