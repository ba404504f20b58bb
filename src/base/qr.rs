//! QR codes, as drawings that need no script and no picture from elsewhere.

use qrcode::{Color, EcLevel};

/// What readers need around a code, in modules (ISO 18004).
const QUIET: usize = 4;

/// A QR code.
pub struct QrCode {
    /// Its width and height with what is around it, in modules.
    pub side: usize,
    /// The outline of its dark modules, as the attribute `d` of a path.
    pub path: String,
}

impl QrCode {
    /// Encodes a text; `None` if it is too long, which is over 2,300 bytes.
    pub fn of(text: &str) -> Option<Self> {
        let code = qrcode::QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
        let width = code.width();
        let mut path = String::new();
        for (y, row) in code.to_colors().chunks(width).enumerate() {
            let mut x = 0;
            for run in row.chunk_by(|left, right| left == right) {
                if run.first() == Some(&Color::Dark) {
                    let length = run.len();
                    path += &format!("M{} {}h{length}v1h-{length}z", x + QUIET, y + QUIET);
                }
                x += run.len();
            }
        }
        Some(QrCode { side: width + 2 * QUIET, path })
    }

    /// Returns it as a document in SVG.
    pub fn svg(&self) -> String {
        let QrCode { side, path } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\" \
             shape-rendering=\"crispEdges\"><path fill=\"#fff\" d=\"M0 0h{side}v{side}H0z\"/><path \
             d=\"{path}\"/></svg>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dark modules of a drawing, row by row.
    fn drawn(code: &QrCode) -> Vec<Vec<bool>> {
        let mut rows = vec![vec![false; code.side]; code.side];
        for run in code.path.split('M').filter(|run| !run.is_empty()) {
            let (x, rest) = run.split_once(' ').unwrap();
            let (y, rest) = rest.split_once('h').unwrap();
            let (x, y): (usize, usize) = (x.parse().unwrap(), y.parse().unwrap());
            let length: usize = rest.split_once('v').unwrap().0.parse().unwrap();
            rows[y][x..x + length].fill(true);
        }
        rows
    }

    #[test]
    fn a_drawing_has_the_modules_of_its_code_and_space_around_them() {
        let text = "otpauth://totp/agents.test:ada%40acme.test?secret=MZXW6YTBOI";
        let code = QrCode::of(text).unwrap();
        let expected = qrcode::QrCode::with_error_correction_level(text, EcLevel::M).unwrap();
        let rows = drawn(&code);
        for (y, row) in rows.iter().enumerate() {
            for (x, dark) in row.iter().enumerate() {
                let inside = QUIET..code.side - QUIET;
                let is_dark = inside.contains(&x)
                    && inside.contains(&y)
                    && expected[(x - QUIET, y - QUIET)] == Color::Dark;
                assert_eq!(*dark, is_dark, "{x} {y}");
            }
        }
        // The upper left finder pattern.
        assert!(rows[QUIET][QUIET..QUIET + 7].iter().all(|dark| *dark));
        assert!(code.svg().contains(&code.path));
    }

    #[test]
    fn the_longest_address_has_a_code_and_what_is_longer_has_none() {
        assert!(QrCode::of(&"%C3%B6".repeat(254)).is_some());
        assert!(QrCode::of(&"ö".repeat(2000)).is_none());
    }
}
