//! Stored enums: the one way to encode an enum, in records and in keys.
//!
//! Each variant has an explicit number beside the enum, because the order of variants in the source
//! is not a format: they get sorted, or one is added in the middle. A number never changes its
//! meaning and is never reused; `tests/enums.rs` compares all of them with
//! `tests/golden/enums.txt`.

/// Declares the numbers under which the variants of an enum are stored, one byte each.
///
/// ```text
/// stored_enum!(TaskStatus { Open = 0, InProgress = 1 });
/// stored_enum!(DraftEnd { Published(at: Time) = 0, Deleted(at: Time) = 1 });
/// ```
///
/// Implements bincode's `Encode` and `Decode`, [`Portable`](crate::base::Portable) by the names of the
/// variants, and [`Key`](super::Key) where no variant has a
/// field: keys then sort by number. A variant that is left out does not compile, nor do two with
/// the same number. Reading a number that is not listed is an error: only a newer Roadstead can have
/// written it.
macro_rules! stored_enum {
    ($name:ident { $($variant:ident = $number:literal),+ $(,)? }) => {
        impl $crate::store::Key for $name {
            fn write(&self, out: &mut Vec<u8>) {
                out.push(match self { $(Self::$variant => $number),+ });
            }
            #[deny(unreachable_patterns)]
            fn read(bytes: &mut &[u8]) -> Option<Self> {
                match <u8 as $crate::store::Key>::read(bytes)? {
                    $($number => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
        $crate::store::stored_enum!(@codec $name { $($variant = $number),+ });
    };
    ($name:ident { $($variant:ident $(($field:ident: $of:ty))? = $number:literal),+ $(,)? }) => {
        $crate::store::stored_enum!(@codec $name { $($variant $(($field: $of))? = $number),+ });
    };
    (@codec $name:ident { $($variant:ident $(($field:ident: $of:ty))? = $number:literal),+ }) => {
        impl bincode::Encode for $name {
            fn encode<E: bincode::enc::Encoder>(
                &self,
                encoder: &mut E,
            ) -> std::result::Result<(), bincode::error::EncodeError> {
                match self {
                    $(Self::$variant $(($field))? => {
                        <u8 as bincode::Encode>::encode(&$number, encoder)?;
                        $(bincode::Encode::encode($field, encoder)?;)?
                    })+
                }
                Ok(())
            }
        }
        impl<C> bincode::Decode<C> for $name {
            #[deny(unreachable_patterns)]
            fn decode<D: bincode::de::Decoder<Context = C>>(
                decoder: &mut D,
            ) -> std::result::Result<Self, bincode::error::DecodeError> {
                Ok(match <u8 as bincode::Decode<C>>::decode(decoder)? {
                    $($number => Self::$variant $((<$of as bincode::Decode<C>>::decode(decoder)?))?,)+
                    found => return Err(bincode::error::DecodeError::UnexpectedVariant {
                        type_name: stringify!($name),
                        allowed: &bincode::error::AllowedEnumVariants::Allowed(&[$($number),+]),
                        found: found.into(),
                    }),
                })
            }
        }
        bincode::impl_borrow_decode!($name);
        impl $crate::base::Portable for $name {
            fn to_json(&self, out: &mut $crate::base::Exporting) -> serde_json::Value {
                let _ = &out; // Unused where no variant has a field.
                match self {
                    $(Self::$variant $(($field))? => $crate::base::portable::variant(
                        stringify!($variant),
                        [$($crate::base::Portable::to_json($field, out))?],
                    ),)+
                }
            }
            fn from_json(
                value: serde_json::Value,
                input: &$crate::base::Importing,
            ) -> std::result::Result<Self, String> {
                let _ = input;
                #[allow(unused_mut)] // Where no variant has a field.
                let (name, mut value) = $crate::base::portable::variant_parts(value)?;
                let read = match name.as_str() {
                    $(stringify!($variant) => Self::$variant $((
                        <$of as $crate::base::Portable>::from_json(
                            value.take().ok_or("has no value")?,
                            input,
                        )?
                    ))?,)+
                    _ => return Err(format!("{name:?} is not known here")),
                };
                if value.is_some() {
                    return Err(format!("{name:?} takes no value"));
                }
                Ok(read)
            }
        }
    };
}
pub(crate) use stored_enum;

#[cfg(test)]
mod tests {
    use bincode::{Decode, Encode};

    use crate::store::{Key, Record, decode, encode};

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Shade {
        Light,
        Dark,
    }
    stored_enum!(Shade { Dark = 7, Light = 2 });

    #[derive(Clone, Debug, PartialEq)]
    enum Size {
        Unknown,
        Exactly(u16),
    }
    stored_enum!(Size { Unknown = 0, Exactly(number: u16) = 1 });

    #[derive(Clone, Debug, PartialEq, Encode, Decode)]
    struct Hat(Shade, Size);

    impl Record for Hat {
        const TABLE: &'static str = "hats";
        type Key = ();
        fn key(&self) {}
    }

    /// What a newer release with more shades wrote.
    #[derive(Clone, Encode, Decode)]
    struct NewerHat([u8; 2]);

    impl Record for NewerHat {
        const TABLE: &'static str = "hats";
        type Key = ();
        fn key(&self) {}
    }

    #[test]
    fn variants_are_stored_under_their_numbers_and_nothing_else() {
        let bytes = encode(&Hat(Shade::Dark, Size::Exactly(0x0102)), b"").unwrap();
        assert_eq!(&bytes[2..bytes.len() - 8], &[7, 1, 0x02, 0x01]);
        for hat in [Hat(Shade::Dark, Size::Exactly(9)), Hat(Shade::Light, Size::Unknown)] {
            let bytes = encode(&hat, b"").unwrap();
            assert_eq!(decode::<Hat>(b"", &bytes).unwrap(), hat);
        }
        assert_eq!((Shade::Light, Some(Shade::Dark)).to_bytes(), [2, 1, 7]);
        assert_eq!(Shade::read(&mut [7].as_slice()), Some(Shade::Dark));
    }

    #[test]
    fn a_number_of_a_newer_release_is_an_error_that_says_so() {
        for (shade, size, named) in [(3, 0, "Shade 3"), (2, 9, "Size 9")] {
            let bytes = encode(&NewerHat([shade, size]), b"").unwrap();
            let error = decode::<Hat>(b"", &bytes).unwrap_err();
            let detail = error.log_detail().unwrap();
            assert!(detail.contains("written by a newer Roadstead"), "{detail}");
            assert!(detail.contains(named), "{detail}");
        }
        assert_eq!(Shade::read(&mut [3].as_slice()), None);
        assert_eq!(Shade::read(&mut [].as_slice()), None);
    }
}
