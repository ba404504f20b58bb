//! Tests of claimed domains and their verification.
use super::*;
