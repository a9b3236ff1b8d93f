//! Choices that s2n-quic leaves to the application: connection IDs, tokens, admission, random numbers and the time.

use std::time::Duration;

use s2n_quic_core::random::Generator;
use s2n_quic_core::stateless_reset::token::Token;
use s2n_quic_core::time::{Clock, NoopClock, Timestamp};
use s2n_quic_core::{connection, endpoint, stateless_reset, token};
use tailback_core::rng::Stream;
use tailback_core::time::Time;

/// Connection IDs of sixteen bytes, s2n-quic's own length, from a stream of random bits.
pub struct Ids(pub Stream);

impl Ids {
    const LEN: usize = 16;
}

impl connection::id::Validator for Ids {
    fn validate(&self, _info: &connection::id::ConnectionInfo, buffer: &[u8]) -> Option<usize> {
        (buffer.len() >= Self::LEN).then_some(Self::LEN)
    }
}

impl connection::id::Generator for Ids {
    fn generate(&mut self, _info: &connection::id::ConnectionInfo) -> connection::LocalId {
        let bits = sixteen(&mut self.0);
        connection::LocalId::try_from(&bits[..]).expect("sixteen bytes")
    }
}

fn sixteen(stream: &mut Stream) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&stream.bits().to_le_bytes()));
    bytes
}

/// Tokens for stateless resets. Resets are disabled, as by default.
pub struct Resets(pub Stream);

impl stateless_reset::token::Generator for Resets {
    const ENABLED: bool = false;
    fn generate(&mut self, _id: &[u8]) -> Token {
        sixteen(&mut self.0).into()
    }
}

/// Address validation is off: no client has to prove its address.
pub struct NoTokens;

impl token::Format for NoTokens {
    const TOKEN_LEN: usize = 0;
    fn generate_new_token(
        &mut self,
        _context: &mut token::Context<'_>,
        _id: &connection::LocalId,
        _buffer: &mut [u8],
    ) -> Option<()> {
        None
    }
    fn generate_retry_token(
        &mut self,
        _context: &mut token::Context<'_>,
        _id: &connection::InitialId,
        _buffer: &mut [u8],
    ) -> Option<()> {
        None
    }
    fn validate_token(
        &mut self,
        _context: &mut token::Context<'_>,
        _token: &[u8],
    ) -> Option<connection::InitialId> {
        None
    }
}

/// Accepts every connection.
pub struct Anybody;

impl endpoint::limits::Limiter for Anybody {
    fn on_connection_attempt(
        &mut self,
        _attempt: &endpoint::limits::ConnectionAttempt,
    ) -> endpoint::limits::Outcome {
        endpoint::limits::Outcome::allow()
    }
}

/// s2n-quic's time: whole microseconds, never zero.
pub fn stamp(now: Time) -> Timestamp {
    NoopClock.get_time() + Duration::from_nanos(now.as_ns())
}

/// The connection's own random number stream.
#[derive(Debug)]
pub struct Random(pub Stream);

impl Generator for Random {
    fn public_random_fill(&mut self, dest: &mut [u8]) {
        dest.chunks_mut(8).for_each(|part| part.copy_from_slice(&self.0.bits().to_le_bytes()[..part.len()]));
    }
    fn private_random_fill(&mut self, dest: &mut [u8]) {
        self.public_random_fill(dest);
    }
}
