//! Tests of listings.
