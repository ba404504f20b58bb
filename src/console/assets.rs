//! The style sheet and the scripts: in the binary, compressed at first use, at paths that have the
//! hash of their content, so that browsers keep them unchanged.

use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use http_body_util::Full;
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};

use super::headers::isolate;
use crate::http::{ResponseBody, accepts_gzip, gzip};

/// The pattern of their paths.
pub const PATTERN: &str = "/assets/{name}";

/// Bytes of a path's hash, in hexadecimal: enough to tell builds apart.
const HASH_DIGITS: usize = 12;

struct Source {
    name: &'static str,
    extension: &'static str,
    content: &'static str,
}

const fn script(name: &'static str, content: &'static str) -> Source {
    Source { name, extension: "js", content }
}

const SOURCES: &[Source] = &[
    Source { name: "console", extension: "css", content: include_str!("assets/console.css") },
    script("board", include_str!("assets/board.js")),
    script("complete", include_str!("assets/complete.js")),
    script("choose", include_str!("assets/choose.js")),
    script("copy", include_str!("assets/copy.js")),
    script("draft", include_str!("assets/draft.js")),
    script("drop", include_str!("assets/drop.js")),
    script("editor", include_str!("assets/editor.js")),
    script("fragment", include_str!("assets/fragment.js")),
    script("keys", include_str!("assets/keys.js")),
    script("live", include_str!("assets/live.js")),
    script("notify", include_str!("assets/notify.js")),
    script("slug", include_str!("assets/slug.js")),
    script("submit", include_str!("assets/submit.js")),
    script("time", include_str!("assets/time.js")),
    script("try", include_str!("assets/try.js")),
    Source { name: "icon", extension: "svg", content: include_str!("assets/icon.svg") },
];

struct Asset {
    name: &'static str,
    path: String,
    media_type: &'static str,
    content: Bytes,
    compressed: Bytes,
}

/// What other files name: the picture of all icons in the style sheet, and the palette in the script of the
/// keys, which reads it when it is opened.
const NAMED: [Source; 2] = [
    Source { name: "icons", extension: "svg", content: include_str!("assets/icons.svg") },
    script("palette", include_str!("assets/palette.js")),
];

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let named: Vec<_> = NAMED.iter().map(|source| Asset::of(source, &[])).collect();
    let mut all: Vec<_> = SOURCES.iter().map(|source| Asset::of(source, &named)).collect();
    all.extend(named);
    all
});

impl Asset {
    /// The source names `named` by their files, which becomes their paths.
    fn of(source: &Source, named: &[Asset]) -> Self {
        let Source { name, extension, content } = source;
        let mut content = without_indentation(content);
        for asset in named {
            let extension = asset.path.rsplit('.').next().unwrap_or_default();
            content = content.replace(&format!("{}.{extension}", asset.name), &asset.path);
        }
        let content = Bytes::from(content);
        let hash = blake3::hash(&content).to_hex();
        let media_type = match *extension {
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        };
        Asset {
            name,
            path: format!("/assets/{name}.{}.{extension}", &hash[..HASH_DIGITS]),
            media_type,
            compressed: gzip(&content, Compression::best()).into(),
            content,
        }
    }
}

/// The text without what is for its readers: indentation, and lines that are comments. No text in
/// quotes has several lines.
fn without_indentation(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let kept = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// The path of an asset, which pages link to.
pub fn path(name: &str) -> &'static str {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    found.map_or("", |asset| asset.path.as_str())
}

/// Whether there is an asset at this path.
pub fn exists(path: &str) -> bool {
    ASSETS.iter().any(|asset| asset.path == path)
}

/// The response for a path, if there is an asset.
pub fn response(path: &str, request: &HeaderMap) -> Option<Response<ResponseBody>> {
    let asset = ASSETS.iter().find(|asset| asset.path == path)?;
    let is_compressed = accepts_gzip(request);
    let body = if is_compressed { asset.compressed.clone() } else { asset.content.clone() };
    let mut response = Response::new(ResponseBody::Whole(Full::new(body)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    headers.insert(CACHE_CONTROL, forever);
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    isolate(headers);
    Some(response)
}
