//! Makes pictures of pages small: a palette of 256 colors, which is what a page has, and a few more
//! where text is smoothed.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
const COLORS: usize = 256;
/// Colors that are closer than this, squared, look alike.
const ALIKE: i32 = 40;

type Color = [u8; 3];

/// A picture: its width, and its pixels.
struct Picture {
    width: usize,
    pixels: Vec<Color>,
}

/// Encodes a picture of a browser again, with a palette.
pub fn smaller(png: &[u8]) -> Vec<u8> {
    let picture = decode(png);
    let mut counts: HashMap<Color, usize> = HashMap::new();
    for pixel in &picture.pixels {
        *counts.entry(*pixel).or_default() += 1;
    }
    let mut by_count: Vec<_> = counts.into_iter().collect();
    by_count.sort_by_key(|(color, count)| (std::cmp::Reverse(*count), *color));
    let mut palette: Vec<Color> = Vec::new();
    for (color, _) in &by_count {
        let is_new = palette.iter().all(|known| distance(*known, *color) > ALIKE);
        if is_new && palette.len() < COLORS {
            palette.push(*color);
        }
    }
    let nearest = |color: Color| {
        let all = palette.iter().enumerate();
        all.min_by_key(|(_, known)| distance(**known, color)).unwrap().0
    };
    let indexes: HashMap<_, _> = by_count
        .iter()
        .map(|(color, _)| (*color, u8::try_from(nearest(*color)).unwrap()))
        .collect();
    let mut rows = Vec::new();
    for row in picture.pixels.chunks(picture.width) {
        rows.push(0);
        rows.extend(row.iter().map(|pixel| indexes[pixel]));
    }
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&rows).unwrap();
    let size = |length: usize| u32::try_from(length).unwrap().to_be_bytes();
    let height = picture.pixels.len() / picture.width;
    let head = [&size(picture.width)[..], &size(height), &[8, 3, 0, 0, 0]].concat();
    let mut png = SIGNATURE.to_vec();
    for (kind, content) in [
        (b"IHDR", head),
        (b"PLTE", palette.concat()),
        (b"IDAT", packed.finish().unwrap()),
        (b"IEND", vec![]),
    ] {
        png.extend(size(content.len()));
        let checked = [&kind[..], &content].concat();
        png.extend(&checked);
        png.extend(crc32fast::hash(&checked).to_be_bytes());
    }
    png
}

fn distance(one: Color, other: Color) -> i32 {
    (0..3).map(|at| (i32::from(one[at]) - i32::from(other[at])).pow(2)).sum()
}

/// Decodes what browsers encode: 8 bits a channel, with or without transparency, not interlaced.
fn decode(png: &[u8]) -> Picture {
    let mut rest = png.strip_prefix(SIGNATURE).unwrap();
    let number =
        |bytes: &[u8]| usize::try_from(u32::from_be_bytes(bytes.try_into().unwrap())).unwrap();
    let (mut width, mut channels, mut packed) = (0, 0, Vec::new());
    while let Some((head, more)) = rest.split_at_checked(8) {
        let (content, after) = more.split_at(number(&head[..4]));
        match &head[4..] {
            b"IHDR" => {
                width = number(&content[..4]);
                channels = match content[8..] {
                    [8, 2, 0, 0, 0] => 3,
                    [8, 6, 0, 0, 0] => 4,
                    _ => panic!("another kind of picture: {content:?}"),
                };
            }
            b"IDAT" => packed.extend(content),
            _ => {}
        }
        rest = &after[4..];
    }
    let mut bytes = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    let mut pixels = Vec::new();
    let mut above = vec![0; width * channels];
    for row in bytes.chunks(width * channels + 1) {
        let row = unfiltered(row[0], &row[1..], &above, channels);
        pixels.extend(row.chunks(channels).map(|pixel| [pixel[0], pixel[1], pixel[2]]));
        above = row;
    }
    Picture { width, pixels }
}

/// Undoes the filter of a row.
fn unfiltered(filter: u8, row: &[u8], above: &[u8], channels: usize) -> Vec<u8> {
    let mut done: Vec<u8> = Vec::with_capacity(row.len());
    for (at, byte) in row.iter().enumerate() {
        let left = at.checked_sub(channels).map_or(0, |at| done[at]);
        let corner = at.checked_sub(channels).map_or(0, |at| above[at]);
        let (a, b, c) = (i32::from(left), i32::from(above[at]), i32::from(corner));
        let predicted = match filter {
            0 => 0,
            1 => a,
            2 => b,
            3 => (a + b) / 2,
            _ => {
                let p = a + b - c;
                let near = [a, b, c].map(|one| (p - one).abs());
                [a, b, c][(0..3).min_by_key(|at| near[*at]).unwrap()]
            }
        };
        done.push(byte.wrapping_add(u8::try_from(predicted & 0xff).unwrap()));
    }
    done
}
