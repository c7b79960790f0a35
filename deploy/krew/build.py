"""Makes the archive and the manifest of the krew plugin, the same bytes each time.

    python deploy/krew/build.py --version v0.1.0 --url https://HOST/RELEASES/v0.1.0 --into dist

The URL is the folder that the archive will be found in.
"""

import argparse
import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ARCHIVE = "kubectl-stowage.tar.gz"
CONTENT = (HERE / "kubectl-stowage", HERE.parents[1] / "LICENSE")


def archive() -> bytes:
    """The files, owned by nobody in particular and without a date."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for path in CONTENT:
            entry = tarfile.TarInfo(path.name)
            entry.size = path.stat().st_size
            entry.mode = 0o755 if path.parent == HERE else 0o644
            with path.open("rb") as file:
                tar.addfile(entry, file)
    return packed.getvalue()


def manifest(version: str, url: str, content: bytes) -> str:
    """The completed manifest."""
    document = yaml.safe_load((HERE / "stowage.yaml").read_text(encoding="utf-8"))
    document["spec"]["version"] = version
    for platform in document["spec"]["platforms"]:
        platform["uri"] = f"{url.rstrip('/')}/{ARCHIVE}"
        platform["sha256"] = hashlib.sha256(content).hexdigest()
    return yaml.safe_dump(document, sort_keys=False)


def main() -> None:
    """Write both."""
    parser = argparse.ArgumentParser(description="Make the krew plugin.")
    parser.add_argument("--version", required=True, help="of the release, such as v0.1.0")
    parser.add_argument("--url", required=True, help="where the archive will be")
    parser.add_argument("--into", type=Path, default=Path("dist"), help="folder to write into")
    given = parser.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    content = archive()
    (given.into / ARCHIVE).write_bytes(content)
    (given.into / "stowage.yaml").write_text(
        manifest(given.version, given.url, content), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
