"""The image for containers: an OCI layout from scratch, made without a daemon."""

import json
import sys
from datetime import UTC, datetime

from . import archive
from .archive import Entry, directory, large_gz, sha256, tar

# How large it may be, compressed.
MOST_MB = 30
USER = 65532
SECOND = 10**9  # Docker counts in nanoseconds.

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX = "application/vnd.oci.image.index.v1+json"


def root(program):
    """The file system of a container."""
    passwd = f"root:x:0:0::/:\nroadstead:x:{USER}:{USER}::/data:\n"
    return [
        Entry("usr/bin/roadstead", program.content, 0o755),
        Entry("etc/passwd", passwd.encode()),
        Entry("etc/group", f"root:x:0:\nroadstead:x:{USER}:\n".encode()),
        directory("data", 0o700, USER),
        directory("tmp", 0o1777),  # For `demo --data /tmp/demo`, and what reads files.
    ]


def labels(program):
    """What the image says of itself, by the names of OCI."""
    named = {"title": "roadstead", "version": program.version, "licenses": "Apache-2.0",
             "revision": program.commit,
             "description": "One self-hosted server in which a small team keeps its AI agents"}
    return {f"org.opencontainers.image.{name}": value for name, value in named.items() if value}


def config(program, layer, created):
    """How a container runs. Healthcheck is a field of Docker, which OCI permits."""
    return {
        "created": created, "architecture": program.image, "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"7420/tcp": {}},
            # Variables, so that commands in the container (doctor, backup) have them too.
            "Env": ["PATH=/usr/bin", "ROADSTEAD_DATA=/data", "ROADSTEAD_LISTEN=0.0.0.0:7420"],
            "Entrypoint": ["/usr/bin/roadstead"],
            "Cmd": ["serve"],
            "Volumes": {"/data": {}},
            "WorkingDir": "/data",
            "StopSignal": "SIGTERM",
            "Labels": labels(program),
            "Healthcheck": {"Test": ["CMD", "/usr/bin/roadstead", "health"],
                            "Interval": 30 * SECOND, "Timeout": 10 * SECOND,
                            "StartPeriod": 60 * SECOND, "Retries": 3},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}"]},
        "history": [{"created": created, "created_by": "packaging/build"}],
    }


def image(program, time):
    """The archive of the layout, which `docker load` and `podman load` read as well."""
    blobs = {}

    def add(content, media_type):
        digest = sha256(content)
        blobs[digest] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(value, media_type):
        return add(json.dumps(value, sort_keys=True).encode(), media_type)

    created = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    layer = tar(root(program), time)
    compressed = large_gz(layer)
    if len(compressed) > MOST_MB * 10**6 and not archive.is_fast():
        sys.exit(f"the image would have {len(compressed) / 10**6:.2f} MB, of at most {MOST_MB}: package a"
                 " program of the profile dist, or give --fast to try things")
    layers = [add(compressed, LAYER)]
    configured = add_json(config(program, layer, created), CONFIG)
    manifest = add_json({"schemaVersion": 2, "mediaType": MANIFEST, "config": configured,
                         "layers": layers}, MANIFEST)
    name = f"roadstead:{program.version}"
    named = {"org.opencontainers.image.ref.name": program.version,
             "io.containerd.image.name": f"docker.io/library/{name}"}
    machine = {"architecture": program.image, "os": "linux"}
    index = {"schemaVersion": 2, "mediaType": INDEX,
             "manifests": [manifest | {"platform": machine, "annotations": named}]}

    def blob(descriptor):
        return f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"

    # What Docker before version 25 reads.
    of_docker = [{"Config": blob(configured), "RepoTags": [name], "Layers": [blob(layers[0])]}]
    files = [
        Entry("oci-layout", b'{"imageLayoutVersion": "1.0.0"}'),
        Entry("index.json", json.dumps(index, sort_keys=True).encode()),
        Entry("manifest.json", json.dumps(of_docker).encode()),
        *(Entry(f"blobs/sha256/{digest}", content) for digest, content in blobs.items()),
    ]
    return tar(files, time)
