//! EPUB books: an archive of XHTML documents.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use percent_encoding::percent_decode_str;

use super::archive::{Archive, MAX_FILES, Xml};
use super::charset;
use super::html;
use super::lines::Lines;
use super::part_names::{path, resolved};
use super::text::{BoundedText, Damaged, Extracted, too_long, unreadable, without_text};
use crate::base::Result;

const FORMAT: &str = "EPUB";

/// Media types of documents that are text.
const DOCUMENTS: [&str; 3] = ["application/xhtml+xml", "text/html", "application/x-dtbook+xml"];

/// Returns the text of a file: the title of the book, and its documents in the order of reading with a
/// form feed between two of them.
pub fn text(bytes: &[u8]) -> Result<Extracted> {
    let mut archive = Archive::open(FORMAT, bytes)?;
    let Some(package_name) = package_name(&mut archive)? else { return Err(archive.other()) };
    let Some(xml) = archive.xml(&package_name)? else { return Err(archive.other()) };
    let mut package = Package::read(xml, &package_name)?;
    if is_encrypted(&mut archive, &package)? {
        return Err(unreadable(
            "the book is encrypted for certain readers (DRM); upload one without it",
        ));
    }
    let mut title = Lines::default();
    title.flow(&package.title)?;
    title.end_line()?;
    let (mut lines, mut is_first, mut broken) = (Lines::default(), true, 0);
    let mut damaged = Damaged::default();
    for (number, id) in (1..).zip(&package.spine) {
        // Each is read once, however often it is listed.
        let bytes = match package.items.get_mut(id).map(Option::take) {
            Some(Some(name)) => archive.bytes(&name),
            Some(None) => continue,
            None => Ok(None),
        };
        let bytes = bytes.and_then(|bytes| bytes.ok_or_else(|| archive.missing()).map(Some));
        let Some(bytes) = damaged.unless(number, bytes)? else { continue };
        if !std::mem::take(&mut is_first) {
            lines.end_page()?;
        }
        let decoded = charset::of_xhtml(&bytes);
        archive.count_decoded(bytes.len(), decoded.text.len())?;
        broken += u32::from(decoded.is_broken);
        html::read(&decoded.text, false, &mut lines)?;
    }
    let replaced = (broken > 0).then(|| {
        format!(
            "in {broken} parts of the book bytes that are in no encoding are replaced by U+FFFD"
        )
    });
    let damaged = damaged.left_out("part", "parts");
    let left_out: Vec<String> = [damaged, replaced].into_iter().flatten().collect();
    let text = lines.finished()?;
    if !text.contains(char::is_alphanumeric) {
        // The title alone is no text.
        let empty = package.spine.is_empty().then(|| "it lists no parts to read".to_string());
        return Err(without_text(FORMAT, left_out.first().or(empty.as_ref())));
    }
    let mut whole = BoundedText { text: title.finished()? };
    whole.write_str(&text).map_err(|_| too_long())?;
    Ok(Extracted { left_out, ..whole.text.into() })
}

/// The name of the file that says what the book consists of.
fn package_name(archive: &mut Archive) -> Result<Option<String>> {
    let Some(mut xml) = archive.xml("META-INF/container.xml")? else { return Ok(None) };
    while xml.next_start()? {
        if xml.name() == "rootfile" {
            return Ok(xml.attribute("full-path").map(|path| resolved("", &path)));
        }
    }
    Ok(None)
}

/// Whether a document is encrypted; fonts are in books that everybody may read, too. If what says so is
/// damaged, the book is refused: of a document that is encrypted noise would be read.
fn is_encrypted(archive: &mut Archive, package: &Package) -> Result<bool> {
    let Some(mut xml) = archive.xml("META-INF/encryption.xml")? else { return Ok(false) };
    let mut names = Vec::new();
    while xml.next_start()? {
        if xml.name() == "CipherReference" {
            names.extend(xml.attribute("URI").map(|uri| target("", &uri)));
        }
    }
    drop(xml);
    let encrypted: HashSet<usize> = names.iter().filter_map(|name| archive.find(name)).collect();
    let mut documents = package.items.values().flatten().filter_map(|name| archive.find(name));
    Ok(documents.any(|document| encrypted.contains(&document)))
}

/// The name of the file to which a link leads.
fn target(from: &str, link: &str) -> String {
    resolved(from, &percent_decode_str(path(link)).decode_utf8_lossy())
}

/// What a book consists of.
#[derive(Default)]
struct Package {
    title: String,
    /// What it has by ids: the names of documents, and none for others.
    items: HashMap<String, Option<String>>,
    /// The ids of what is read, in order: at most as many as a file may have parts.
    spine: Vec<String>,
}

impl Package {
    fn read(mut xml: Xml, own_name: &str) -> Result<Self> {
        let mut package = Package::default();
        while xml.next_start()? {
            match xml.name() {
                "title" if package.title.is_empty() => package.title = xml.inner_text()?,
                "item" => {
                    let media_type = xml.attribute("media-type").unwrap_or_default();
                    let (id, link) = (xml.attribute("id"), xml.attribute("href"));
                    let is_document = DOCUMENTS.contains(&media_type.as_str());
                    let name = link.filter(|_| is_document).map(|link| target(own_name, &link));
                    if let Some(id) = id {
                        package.items.insert(id, name);
                    }
                }
                "itemref" if package.spine.len() < MAX_FILES => {
                    package.spine.push(xml.attribute("idref").unwrap_or_default());
                }
                _ => {}
            }
        }
        Ok(package)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{archive, archive_of_bytes};
    use super::*;

    const CONTAINER: &str =
        r#"<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>"#;
    const PACKAGE: &str = r#"<package><metadata><dc:title>Tides</dc:title></metadata><manifest>
        <item id="a" href="one.xhtml" media-type="application/xhtml+xml"/>
        <item id="b" href="text/two%20words.xhtml" media-type="application/xhtml+xml"/>
        <item id="c" href="cover.png" media-type="image/png"/></manifest>
        <spine><itemref idref="b"/><itemref idref="c"/><itemref idref="none"/><itemref idref="a" linear="no"/></spine></package>"#;

    fn book(encryption: &str) -> Result<Extracted> {
        text(&archive(&[
            ("mimetype", "application/epub+zip"),
            ("META-INF/container.xml", CONTAINER),
            ("META-INF/encryption.xml", encryption),
            ("OPS/book.opf", PACKAGE),
            (
                "OPS/one.xhtml",
                "<html><head><title>no</title><script src=\"a\"/></head><body><p>last&nbsp;page</p></body></html>",
            ),
            (
                "OPS/text/two words.xhtml",
                "<?xml version=\"1.0\"?><html><head><title/></head><body><p>first</p></body></html>",
            ),
            ("OPS/cover.png", "no"),
        ]))
    }

    #[test]
    fn documents_are_in_the_order_of_reading() {
        assert_eq!(book("<e/>").unwrap().text, "Tides\nfirst\n\u{c}last\u{a0}page\n");
    }

    #[test]
    fn a_part_with_a_wrong_byte_is_read_and_the_loss_is_said() {
        let package = "<package><manifest><item id=\"a\" href=\"a.xhtml\" \
                       media-type=\"application/xhtml+xml\"/></manifest>\
                       <spine><itemref idref=\"a\"/></spine></package>";
        let files: [(&str, &[u8]); 3] = [
            ("META-INF/container.xml", CONTAINER.as_bytes()),
            ("OPS/book.opf", package.as_bytes()),
            ("OPS/a.xhtml", b"<html><body><p>ebb\xe9 and \xc2\x93flow</p></body></html>"),
        ];
        let read = text(&archive_of_bytes(&files)).unwrap();
        assert_eq!(read.text, "ebb\u{fffd} and \u{93}flow\n");
        assert_eq!(read.left_out.len(), 1);
    }

    #[test]
    fn a_damaged_part_is_left_out_and_the_answer_says_so() {
        let package = "<package><manifest>\
            <item id=\"a\" href=\"a.xhtml\" media-type=\"application/xhtml+xml\"/>\
            <item id=\"b\" href=\"b.xhtml\" media-type=\"application/xhtml+xml\"/></manifest>\
            <spine><itemref idref=\"a\"/><itemref idref=\"b\"/></spine></package>";
        let files = [
            ("META-INF/container.xml", CONTAINER),
            ("OPS/book.opf", package),
            ("OPS/a.xhtml", "<html><body><p>a page that ebbs</p></body></html>"),
            ("OPS/b.xhtml", "<html><body><p>flow</p></body></html>"),
        ];
        let mut book = archive(&files);
        // The end of its compressed bytes, before the header of the next file.
        let next = book.windows(11).position(|bytes| bytes == b"OPS/b.xhtml").unwrap() - 30;
        book[next - 8..next].fill(0xff);
        let read = text(&book).unwrap();
        assert_eq!(
            (read.text.as_str(), &read.left_out[..]),
            ("flow\n", &["part 1 is damaged and left out".into()][..])
        );
    }

    #[test]
    fn a_book_is_encrypted_if_its_documents_are() {
        let encrypted =
            |uri: &str| format!("<e><CipherData><CipherReference URI=\"{uri}\"/></CipherData></e>");
        assert!(book(&encrypted("OPS/fonts/a.ttf")).is_ok());
        let refused = book(&encrypted("OPS/text/two%20words.xhtml")).unwrap_err();
        assert!(refused.message().contains("DRM"), "{refused}");
    }

    #[test]
    fn a_missing_part_is_as_good_as_damaged_and_a_book_of_them_is_refused() {
        let of = |spine: &str, files: &[(&'static str, &'static str)]| {
            let item = |id: &str| {
                let link = format!("href=\"{id}.xhtml\" media-type=\"application/xhtml+xml\"");
                format!("<item id=\"{id}\" {link}/>")
            };
            let package = format!(
                "<package><metadata><title>Tides</title></metadata><manifest>{}{}\
                 <item id=\"c\" href=\"c.png\" media-type=\"image/png\"/></manifest>\
                 <spine>{spine}</spine></package>",
                item("a"),
                item("b")
            );
            let mut all = vec![("META-INF/container.xml", CONTAINER), ("OPS/book.opf", &package)];
            all.extend_from_slice(files);
            text(&archive(&all))
        };
        let [a, b, c, unknown] =
            ["a", "b", "c", "d"].map(|id| format!("<itemref idref=\"{id}\"/>"));
        let page = ("OPS/b.xhtml", "<html><body><p>ebb</p></body></html>");
        for missing in [&a, &unknown, "<itemref/>"] {
            let read = of(&format!("{c}{missing}{b}"), &[page]).unwrap();
            let said = ["part 2 is damaged and left out".to_string()];
            assert_eq!((read.text.as_str(), &read.left_out[..]), ("Tides\nebb\n", &said[..]));
        }
        // A picture is no text, and what is listed again was read.
        assert!(of(&format!("{c}{b}{b}"), &[page]).unwrap().left_out.is_empty());
        for (spine, said) in [
            (format!("{a}{b}"), "(parts 1 to 2 are damaged and left out)"),
            (String::new(), "(it lists no parts to read)"),
            (c, "has no text; if it is a scan"),
        ] {
            let refused = of(&spine, &[]).unwrap_err();
            assert!(refused.message().contains(said), "{refused}");
        }
    }

    #[test]
    fn documents_are_found_by_links_that_are_encoded_or_not() {
        for (link, name) in [
            ("two words.xhtml", "two words.xhtml"),
            ("two%20words.xhtml", "two words.xhtml"),
            ("two words.xhtml", "two%20words.xhtml"),
            ("two%20words.xhtml", "two%20words.xhtml"),
            ("Two%20Words.XHTML#top", "two words.xhtml"),
            ("./x/../two words.xhtml", "two words.xhtml"),
            ("/OPS 1/a.xhtml", "a.xhtml"),
            ("caf%C3%A9.xhtml", "cafe\u{301}.xhtml"),
            ("100%25.xhtml", "100%.xhtml"),
            ("100%25.xhtml", "100%25.xhtml"),
            ("why%3F%231.xhtml?a#b", "why?#1.xhtml"),
        ] {
            let package = format!(
                "<package><manifest><item id=\"a\" href=\"{link}\" \
                 media-type=\"application/xhtml+xml\"/></manifest>\
                 <spine><itemref idref=\"a\"/></spine></package>"
            );
            for folder in ["OPS 1", "OPS%201", "ops%201"] {
                for path in ["OPS 1/a.opf", "/OPS%201/a.opf", "./OPS 1/a.opf"] {
                    let container =
                        format!("<container><rootfile full-path=\"{path}\"/></container>");
                    let read = text(&archive(&[
                        ("META-INF/container.xml", &container),
                        (&format!("{folder}/a.opf"), &package),
                        (&format!("{folder}/{name}"), "<html><body><p>ebb</p></body></html>"),
                    ]));
                    assert_eq!(read.unwrap().text, "ebb\n", "{link} {name} {folder} {path}");
                }
            }
        }
        // What is encrypted is so by any of its names.
        for uri in ["OPS/TEXT/two words.xhtml", "/OPS/text/two%20words.xhtml"] {
            let encryption =
                format!("<e><CipherData><CipherReference URI=\"{uri}\"/></CipherData></e>");
            assert!(book(&encryption).unwrap_err().message().contains("DRM"));
        }
    }

    #[test]
    fn what_utf8_takes_more_counts_for_all_documents_of_a_book() {
        let ids = ["a", "b", "c", "d"];
        let item =
            |id: &&str| format!("<item id=\"{id}\" href=\"{id}.html\" media-type=\"text/html\"/>");
        let reference = |id: &&str| format!("<itemref idref=\"{id}\"/>");
        let items: String = ids.iter().map(item).collect();
        let spine: String = ids.iter().map(reference).collect();
        let package =
            format!("<package><manifest>{items}</manifest><spine>{spine}</spine></package>");
        // A byte each, and three in UTF-8.
        let document = [
            b"<html><meta charset=windows-1252><body><!--".to_vec(),
            vec![0x80; 10 * 1024 * 1024],
            b"--><p>ebb</p></body></html>".to_vec(),
        ]
        .concat();
        let names = ids.map(|id| format!("OPS/{id}.html"));
        let mut files: Vec<(&str, &[u8])> = vec![
            ("META-INF/container.xml", CONTAINER.as_bytes()),
            ("OPS/book.opf", package.as_bytes()),
        ];
        files.extend(names.iter().take(3).map(|name| (name.as_str(), document.as_slice())));
        assert!(text(&archive_of_bytes(&files)).unwrap().text.contains("ebb"));
        files.push((&names[3], &document));
        let refused = text(&archive_of_bytes(&files)).unwrap_err();
        assert_eq!(refused.kind(), crate::base::Kind::TooLarge);
    }

    #[test]
    fn a_book_in_utf16_is_read() {
        let utf16 =
            |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        let package = utf16(&format!("\u{feff}<?xml version='1.0' encoding='utf-16'?>{PACKAGE}"));
        let files: [(&str, &[u8]); 4] = [
            ("META-INF/container.xml", &utf16(CONTAINER)),
            ("OPS/book.opf", &package),
            ("OPS/one.xhtml", &utf16("<html><body><p>ebb – é</p></body></html>")),
            ("OPS/text/two words.xhtml", &utf16("\u{feff}<html><body><p>満潮</p></body></html>")),
        ];
        let read = text(&archive_of_bytes(&files)).unwrap();
        assert_eq!(read.text, "Tides\n満潮\n\u{c}ebb – é\n");
    }
}
