//! The handshake and the keys without cryptography, as implementations of s2n-quic's traits.

use std::task::Poll;

use bytes::Bytes;
use s2n_codec::{Encoder, EncoderValue};
use s2n_quic_core::application::ServerName;
use s2n_quic_core::crypto::tls::{self, CipherSuite, HandshakeType, HelloOffsets, NamedGroup};
use s2n_quic_core::crypto::{self, HeaderProtectionMask, packet_protection, retry::IntegrityTag};
use s2n_quic_core::transport;

use crate::null::{self, Handshake, TAG};

/// Client and server without cryptography.
pub struct Null;

impl tls::Endpoint for Null {
    type Session = NullSession;
    fn new_server_session<P: EncoderValue>(&mut self, params: &P, _info: tls::ConnectionInfo) -> NullSession {
        NullSession::new(params, false)
    }
    fn new_client_session<P: EncoderValue>(&mut self, params: &P, _name: ServerName) -> NullSession {
        NullSession::new(params, true)
    }
    fn max_tag_length(&self) -> usize {
        TAG.len()
    }
}

#[derive(Debug)]
pub struct NullSession {
    is_client: bool,
    handshake: Handshake,
    /// Number of keys given, which is also the packet number space in which messages are sent.
    keys_given: usize,
    has_named: bool,
    is_complete: bool,
}

impl NullSession {
    fn new<P: EncoderValue>(params: &P, is_client: bool) -> Self {
        NullSession {
            is_client,
            handshake: Handshake::new(is_client, params.encode_to_vec()),
            keys_given: 0,
            has_named: false,
            is_complete: false,
        }
    }

    /// Provides the keys that follow the handshake so far.
    fn give<C: tls::Context<Self>>(&self, context: &mut C) -> Result<(), transport::Error> {
        if self.keys_given == 1 {
            return context.on_handshake_keys(NullKey, NullKey);
        }
        context.on_application_protocol(Bytes::from_static(b"null"))?;
        context.on_key_exchange_group(NamedGroup { group_name: "null", contains_kem: false })?;
        let params = self.handshake.peer_params.as_deref().unwrap_or_default();
        context.on_one_rtt_keys(NullKey, NullKey, tls::ApplicationParameters { transport_parameters: params })
    }
}

impl tls::Session for NullSession {
    fn poll<C: tls::Context<Self>>(&mut self, context: &mut C) -> Poll<Result<(), transport::Error>> {
        if !std::mem::replace(&mut self.has_named, true) && self.is_client {
            context.on_server_name("server".into())?;
        }
        loop {
            let arrived = [context.receive_initial(None), context.receive_handshake(None)];
            let has_news = arrived.iter().flatten().next().is_some();
            for bytes in arrived.into_iter().flatten() {
                self.handshake.read(&bytes);
            }
            // Process bytes that arrived together with the previous message.
            self.handshake.read(&[]);
            let mut out = Vec::new();
            let space = self.keys_given;
            let keys = self.handshake.write(&mut out, &mut self.keys_given);
            let is_idle = out.is_empty() && keys == null::Keys::None && !has_news;
            match space {
                _ if out.is_empty() => {}
                0 => context.send_initial(out.into()),
                _ => context.send_handshake(out.into()),
            }
            if keys == null::Keys::Next {
                self.give(context)?;
            }
            if is_idle {
                break;
            }
        }
        if self.keys_given == 2 && !self.handshake.is_under_way() && !self.is_complete {
            self.is_complete = true;
            context.on_handshake_complete()?;
        }
        if self.is_complete { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn parse_hello(
        _kind: HandshakeType,
        _chunk: &[u8],
        _received: u64,
        _most: u64,
    ) -> Result<Option<HelloOffsets>, transport::Error> {
        Ok(Some(HelloOffsets { payload_offset: 0, payload_len: 0 }))
    }
}

impl crypto::CryptoSuite for NullSession {
    type HandshakeKey = NullKey;
    type HandshakeHeaderKey = NullKey;
    type InitialKey = NullKey;
    type InitialHeaderKey = NullKey;
    type OneRttKey = NullKey;
    type OneRttHeaderKey = NullKey;
    type ZeroRttKey = NullKey;
    type ZeroRttHeaderKey = NullKey;
    type RetryKey = NullKey;
}

#[derive(Debug)]
pub struct NullKey;

impl crypto::Key for NullKey {
    fn decrypt(
        &self,
        _packet: u64,
        _header: &[u8],
        payload: &mut [u8],
    ) -> Result<(), packet_protection::Error> {
        match payload.len() >= TAG.len() {
            true => Ok(()),
            false => Err(packet_protection::Error::DECRYPT_ERROR),
        }
    }
    fn encrypt(
        &mut self,
        _packet: u64,
        _header: &[u8],
        payload: &mut s2n_codec::encoder::scatter::Buffer,
    ) -> Result<(), packet_protection::Error> {
        payload.flatten().write_slice(&TAG);
        Ok(())
    }
    fn tag_len(&self) -> usize {
        TAG.len()
    }
    fn aead_confidentiality_limit(&self) -> u64 {
        u64::MAX
    }
    fn aead_integrity_limit(&self) -> u64 {
        u64::MAX
    }
    fn cipher_suite(&self) -> CipherSuite {
        CipherSuite::Unknown
    }
}

impl crypto::HeaderKey for NullKey {
    fn opening_header_protection_mask(&self, _sample: &[u8]) -> HeaderProtectionMask {
        Default::default()
    }
    fn opening_sample_len(&self) -> usize {
        16
    }
    fn sealing_header_protection_mask(&self, _sample: &[u8]) -> HeaderProtectionMask {
        Default::default()
    }
    fn sealing_sample_len(&self) -> usize {
        16
    }
}

impl crypto::InitialKey for NullKey {
    type HeaderKey = NullKey;
    fn new_server(_id: &[u8]) -> (Self, Self) {
        (NullKey, NullKey)
    }
    fn new_client(_id: &[u8]) -> (Self, Self) {
        (NullKey, NullKey)
    }
}

impl crypto::OneRttKey for NullKey {
    fn derive_next_key(&self) -> Self {
        NullKey
    }
}

impl crypto::InitialHeaderKey for NullKey {}
impl crypto::HandshakeKey for NullKey {}
impl crypto::HandshakeHeaderKey for NullKey {}
impl crypto::OneRttHeaderKey for NullKey {}
impl crypto::ZeroRttKey for NullKey {}
impl crypto::ZeroRttHeaderKey for NullKey {}

impl crypto::RetryKey for NullKey {
    fn generate_tag(_payload: &[u8]) -> IntegrityTag {
        TAG
    }
    fn validate(_payload: &[u8], _tag: IntegrityTag) -> Result<(), packet_protection::Error> {
        Ok(())
    }
}
