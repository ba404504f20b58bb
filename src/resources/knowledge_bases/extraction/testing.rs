//! Archives that tests make.

use std::io::{Cursor, Write as _};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// An archive of these files.
pub fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let bytes = files.iter().map(|(name, text)| (*name, text.as_bytes()));
    archive_of_bytes(&bytes.collect::<Vec<_>>())
}

/// An archive of files that need not be text.
pub fn archive_of_bytes(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// The part that says what a part refers to: ids, kinds and targets.
pub fn relationships(all: &[(&str, &str, &str)]) -> String {
    const KINDS: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let one = |(id, kind, target): &(&str, &str, &str)| {
        format!(r#"<Relationship Id="{id}" Type="{KINDS}/{kind}" Target="{target}"/>"#)
    };
    let all: String = all.iter().map(one).collect();
    format!(r#"<?xml version="1.0"?><Relationships xmlns="r">{all}</Relationships>"#)
}
