//! Requests over quinn with real TLS: `quinn serve ADDRESS PORT FOLDER`, `quinn get ADDRESS:PORT COUNT FOLDER`. The
//! server leaves its certificate in the folder, and the client trusts that one.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};

const ANSWER: usize = 500_000;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

async fn answer(connection: Connection) -> Outcome {
    loop {
        let (mut send, mut receive) = connection.accept_bi().await?;
        receive.read_to_end(1000).await?;
        send.write_all(&vec![0; ANSWER]).await?;
        send.finish()?;
    }
}

async fn serve(at: SocketAddr, folder: &Path) -> Outcome {
    let own = rcgen::generate_simple_self_signed(["example".into()])?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![own.cert.der().clone()], key.into())?;
    std::fs::write(folder.join("certificate"), own.cert.der())?;
    let endpoint = Endpoint::server(config, at)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(answer(incoming.await?));
    }
    Ok(())
}

async fn get(server: SocketAddr, count: usize, folder: &Path) -> Outcome {
    let mut trusted = RootCertStore::empty();
    trusted.add(std::fs::read(folder.join("certificate"))?.into())?;
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    let config = ClientConfig::with_root_certificates(Arc::new(trusted))?;
    let (began, mut got) = (Instant::now(), 0);
    let connection = endpoint.connect_with(config, server, "example")?.await?;
    for _ in 0..count {
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(b"more").await?;
        send.finish()?;
        got += receive.read_to_end(ANSWER).await?.len();
    }
    let took = began.elapsed().as_secs_f64();
    connection.close(0_u8.into(), b"");
    endpoint.wait_idle().await;
    println!("bytes {got} seconds {took:.9} rate {:.6}", got as f64 * 8e-6 / took);
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    let words: Vec<String> = std::env::args().collect();
    match words[1].as_str() {
        "serve" => serve(format!("{}:{}", words[2], words[3]).parse()?, words[4].as_ref()).await,
        _ => get(words[2].parse()?, words[3].parse()?, words[4].as_ref()).await,
    }
}
