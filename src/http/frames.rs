//! Tracks where frames of HTTP/2 begin and end in the bytes of a connection (RFC 9113, section 4).
//!
//! A head is a frame and those that continue it, with nothing between them: while it is not complete,
//! nothing else on the connection is. hyper has no time limit for that, nor for any other part of a frame.

/// What a client begins with.
const PREFACE_BYTES: u32 = 24;
const FRAME_HEAD_BYTES: usize = 9;

const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
/// That a frame answers one of the same kind.
const ACK: u8 = 1;

/// The frames of a connection so far.
pub struct Frames {
    /// The head of a frame, as far as it has come.
    head: [u8; FRAME_HEAD_BYTES],
    head_bytes: usize,
    /// How many bytes are missing behind it, or of the preface.
    missing: u32,
    /// Whether a head of a request has begun that is not complete.
    is_head_open: bool,
    /// Whether the frame, once it is there, completes the head.
    completes_head: bool,
    /// How many there were since somebody asked, and how many of them are of no request.
    count: FrameCount,
}

/// A number of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCount {
    pub all: usize,
    /// Of no request, and no answer to the server: settings, looks whether it is there, priorities, and
    /// what it does not know.
    pub of_no_request: usize,
}

/// What the last bytes are a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePart {
    /// The head of a request.
    Head,
    /// Another frame, or the preface.
    Other,
}

/// Where bytes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramesEnd {
    /// What is not complete; nothing if they end with a frame.
    pub part: Option<FramePart>,
    /// Whether it has begun with them.
    pub is_new: bool,
}

impl Frames {
    /// Those of a connection of which nothing has come yet.
    pub fn new() -> Self {
        Frames {
            head: [0; FRAME_HEAD_BYTES],
            head_bytes: 0,
            missing: PREFACE_BYTES,
            is_head_open: false,
            completes_head: false,
            count: FrameCount::default(),
        }
    }

    /// How many frames have begun since this was asked the last time.
    pub fn take_count(&mut self) -> FrameCount {
        std::mem::take(&mut self.count)
    }

    /// Tracks `bytes`.
    pub fn follow(&mut self, mut bytes: &[u8]) -> FramesEnd {
        let mut is_new = self.part().is_none();
        while !bytes.is_empty() {
            if self.missing > 0 {
                let passed = usize::try_from(self.missing).unwrap_or(usize::MAX).min(bytes.len());
                bytes = &bytes[passed..];
                self.missing -= u32::try_from(passed).unwrap_or(self.missing);
            } else {
                let missing = FRAME_HEAD_BYTES - self.head_bytes;
                let (now, rest) = bytes.split_at(missing.min(bytes.len()));
                self.head[self.head_bytes..][..now.len()].copy_from_slice(now);
                self.head_bytes += now.len();
                bytes = rest;
                if self.head_bytes < FRAME_HEAD_BYTES {
                    continue;
                }
                self.begin();
            }
            if self.missing == 0 {
                self.end();
                is_new |= self.part().is_none();
            }
        }
        FramesEnd { part: self.part(), is_new }
    }

    /// The head of a frame is there.
    fn begin(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.missing = u32::from_be_bytes([0, high, middle, low]);
        self.is_head_open |= matches!(kind, HEADERS | PUSH_PROMISE);
        let is_of_head = matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION);
        self.completes_head = is_of_head && flags & END_HEADERS != 0;
        self.count.all += 1;
        let is_of_none = match kind {
            SETTINGS | PING => flags & ACK == 0,
            PRIORITY => true,
            _ => kind > CONTINUATION,
        };
        self.count.of_no_request += usize::from(is_of_none);
    }

    /// A frame is there, or the preface.
    fn end(&mut self) {
        self.head_bytes = 0;
        if std::mem::take(&mut self.completes_head) {
            self.is_head_open = false;
        }
    }

    fn part(&self) -> Option<FramePart> {
        if self.is_head_open {
            Some(FramePart::Head)
        } else if self.missing > 0 || self.head_bytes > 0 {
            Some(FramePart::Other)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn ends(parts: &[&[u8]]) -> Vec<FramesEnd> {
        let mut frames = Frames::new();
        parts.iter().map(|part| frames.follow(part)).collect()
    }

    fn end(part: impl Into<Option<FramePart>>, is_new: bool) -> FramesEnd {
        FramesEnd { part: part.into(), is_new }
    }

    #[test]
    fn whole_frames_end_with_nothing_open_however_they_come() {
        let settings = frame(4, 0, &[0; 6]);
        let open = frame(HEADERS, 0, b"abc");
        let empty = frame(CONTINUATION, 0, b"");
        let last = frame(CONTINUATION, END_HEADERS, b"def");
        let data = frame(0, 1, &[7; 70_000]);
        let all = [PREFACE, &settings, &open, &empty, &last, &data, &frame(6, 0, &[0; 8])].concat();
        for at_once in [1, 2, 9, 10, 1000, all.len()] {
            let mut frames = Frames::new();
            let last = all.chunks(at_once).map(|bytes| frames.follow(bytes)).last();
            assert_eq!(last.unwrap().part, None, "{at_once}");
        }
    }

    #[test]
    fn frames_of_no_request_are_counted() {
        let mut frames = Frames::new();
        let of_none = [frame(4, 0, &[0; 6]), frame(6, 0, &[0; 8]), frame(2, 0, &[0; 5])].concat();
        let of_some = [frame(4, ACK, b""), frame(6, ACK, &[0; 8]), frame(8, 0, &[0; 4])].concat();
        let request = [frame(HEADERS, END_HEADERS, b"abc"), frame(0, 1, b"{}")].concat();
        let all = [PREFACE, &of_none, &frame(200, 0, b"x"), &of_some, &request].concat();
        all.chunks(5).for_each(|bytes| {
            frames.follow(bytes);
        });
        assert_eq!(frames.take_count(), FrameCount { all: 9, of_no_request: 4 });
        assert_eq!(frames.take_count(), FrameCount::default());
    }

    #[test]
    fn a_head_is_open_until_a_frame_says_that_it_ends() {
        let open = frame(HEADERS, 1, b"abc");
        let more = frame(CONTINUATION, 0, b"abc");
        let last = frame(CONTINUATION, END_HEADERS, b"abc");
        let parts = [PREFACE, &open, &more, &last[..4], &last[4..11], &last[11..]];
        assert_eq!(
            ends(&parts),
            [
                end(None, true),
                end(FramePart::Head, true),
                end(FramePart::Head, false),
                end(FramePart::Head, false),
                end(FramePart::Head, false),
                end(None, true),
            ]
        );
    }

    #[test]
    fn a_part_is_new_behind_a_frame_that_was_completed_and_old_otherwise() {
        let data = frame(0, 0, &[1; 100]);
        let head = frame(HEADERS, END_HEADERS, b"abc");
        let of_next = [&data[50..], &head[..10]].concat();
        let parts =
            [&PREFACE[..10], &PREFACE[10..], &data[..5], &data[5..50], &of_next, &head[10..]];
        assert_eq!(
            ends(&parts),
            [
                end(FramePart::Other, false),
                end(None, true),
                end(FramePart::Other, true),
                end(FramePart::Other, false),
                end(FramePart::Head, true),
                end(None, true),
            ]
        );
    }
}
