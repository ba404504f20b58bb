//! The image for containers.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::{Packages, packages, sha256};
use crate::client::eventually;
use crate::optional::{program, run};
use crate::process::Serving;
use crate::server::free_port;
use crate::static_program::can_change_root;

/// The unpacked layout.
struct Layout(PathBuf);

impl Layout {
    fn of(packages: &Packages, name: &str) -> Self {
        let place = packages.place.path().join(name);
        fs::create_dir(&place).unwrap();
        let archive = packages.file(".oci.tar");
        run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&place));
        Layout(place)
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.0.join(name)).unwrap()).unwrap()
    }

    /// What a descriptor names, which has its size and digest.
    fn blob(&self, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let blob = fs::read(self.0.join("blobs/sha256").join(digest)).unwrap();
        assert_eq!(sha256(&blob), digest);
        assert_eq!(descriptor["size"], blob.len());
        blob
    }

    /// The configuration and the one layer, uncompressed.
    fn config_and_layer(&self) -> (Value, Vec<u8>) {
        assert_eq!(self.json("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}));
        let index = self.json("index.json");
        let [manifest] = &index["manifests"].as_array().unwrap()[..] else { panic!("{index}") };
        assert_eq!(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json");
        let manifest: Value = serde_json::from_slice(&self.blob(manifest)).unwrap();
        let config = serde_json::from_slice(&self.blob(&manifest["config"])).unwrap();
        let [layer] = &manifest["layers"].as_array().unwrap()[..] else { panic!("{manifest}") };
        assert_eq!(layer["mediaType"], "application/vnd.oci.image.layer.v1.tar+gzip");
        let mut unpacked = Vec::new();
        GzDecoder::new(&self.blob(layer)[..]).read_to_end(&mut unpacked).unwrap();
        (config, unpacked)
    }
}

#[test]
fn the_image_is_a_layout_whose_digests_are_right_and_runs_as_a_user_without_rights() {
    let Some(packages) = packages() else { return };
    let layout = Layout::of(packages, "layout");
    let (config, layer) = layout.config_and_layer();
    assert_eq!(config["os"], "linux");
    assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256(&layer))]));
    let runs = &config["config"];
    assert_eq!(runs["User"], "65532:65532");
    assert_eq!(runs["Entrypoint"], json!(["/usr/bin/roadstead"]));
    assert_eq!(runs["Cmd"], json!(["serve"]));
    assert_eq!(runs["Volumes"], json!({"/data": {}}));
    assert_eq!(runs["ExposedPorts"], json!({"7420/tcp": {}}));
    assert_eq!(runs["Healthcheck"]["Test"], json!(["CMD", "/usr/bin/roadstead", "health"]));
    // Docker before version 25 reads this in place of the index.
    let of_docker = &layout.json("manifest.json")[0];
    for name in [&of_docker["Config"], &of_docker["Layers"][0]] {
        assert!(layout.0.join(name.as_str().unwrap()).is_file(), "{name}");
    }
}

#[test]
fn an_image_of_more_than_30_mb_is_not_made() {
    let Some(_) = packages() else { return };
    let script = "import random, sys\n\
                  sys.dont_write_bytecode = True\n\
                  sys.path.insert(0, 'packaging')\n\
                  from make import image, program\n\
                  content = random.Random(1).randbytes(int(sys.argv[1]))\n\
                  machine = ('x86_64', 'amd64', 'amd64')\n\
                  made = program.Program(content, '1.0.0', None, *machine, True, {}, {})\n\
                  image.image(made, 0)";
    let make = |bytes: &str| {
        let mut python = Command::new("python3");
        python.current_dir(env!("CARGO_MANIFEST_DIR")).args(["-c", script, bytes]);
        python.output().unwrap()
    };
    // Random bytes are not compressed: the rest of the layer comes to less than the difference.
    assert!(make("29900000").status.success());
    let refused = make("30000001");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("of at most 30: package a program of the profile dist"), "{said}");
}

/// The file system of a container, as a daemon would unpack it.
fn unpacked(layer: &[u8], place: &Path) {
    let archive = place.join("layer.tar");
    fs::write(&archive, layer).unwrap();
    let root = place.join("root");
    fs::create_dir(&root).unwrap();
    run(Command::new("tar").args(["--same-owner", "-xpf"]).arg(archive).arg("-C").arg(root));
}

#[test]
fn the_image_serves_from_its_own_file_system_alone() {
    let Some(packages) = packages() else { return };
    if !can_change_root("the image in a directory", packages.is_static) {
        return;
    }
    let Some(chroot) = program("chroot", "the image in a directory", "coreutils") else { return };
    let layout = Layout::of(packages, "layout-to-run");
    let (config, layer) = layout.config_and_layer();
    unpacked(&layer, &layout.0);
    let root = layout.0.join("root");
    let data = fs::metadata(root.join("data")).unwrap();
    assert_eq!((data.uid(), data.permissions().mode() & 0o777), (65532, 0o700));

    let port = free_port();
    let command = |args: &[&str]| {
        let mut command = Command::new(&chroot);
        let user = format!("--userspec={}", config["config"]["User"].as_str().unwrap());
        command.arg(user).arg(&root).arg("/usr/bin/roadstead").args(args).env_clear();
        for variable in config["config"]["Env"].as_array().unwrap() {
            let (name, value) = variable.as_str().unwrap().split_once('=').unwrap();
            // Beside other tests the port is another one.
            command.env(name, value.replace("7420", &port.to_string()));
        }
        command
    };
    let args: Vec<_> = config["config"]["Cmd"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .collect();
    let health = || command(&["health"]).output().unwrap();
    assert_eq!(health().status.code(), Some(1), "nothing listens");
    let mut serving = Serving::of(command(&[&args[..], &["--json"]].concat()));
    eventually("it is healthy", || health().status.success().then_some(()));
    assert!(serving.announced["setupLink"].is_string(), "{}", serving.announced);
    run(command(&["setup-link"]).arg("--json"));
    serving.signal("TERM");
    assert_eq!(serving.ends().0, Some(0));
    run(&mut command(&["check"]));
}
