//! The extension module `tailback._core`.
