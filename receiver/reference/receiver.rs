//! A receiver of webhooks with axum. It remembers handled messages in memory; use a table of your database instead.
//!
//!     WEBHOOK_SECRET=whsec_… PORT=9000 cargo run

use axum::body::Bytes;
use axum::http::{header, HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::{engine::general_purpose::STANDARD, Engine};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Whether the request is genuine. The body is the raw bytes, such as axum's `Bytes`.
fn verify(secret: &str, headers: &HeaderMap, body: &[u8]) -> bool {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let Ok(seconds) = timestamp.parse::<u64>() else { return false };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    if now.abs_diff(seconds) > 300 {
        return false;
    }
    let Ok(key) = STANDARD.decode(secret.trim_start_matches("whsec_")) else { return false };
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    header("webhook-signature")
        .split(' ')
        .filter_map(|entry| STANDARD.decode(entry.strip_prefix("v1,")?).ok())
        // verify_slice compares in constant time.
        .any(|signature| mac.clone().verify_slice(&signature).is_ok())
}

/// The ids of messages, with whether their work is done. An id with `false` is being worked on.
static MESSAGES: LazyLock<Mutex<HashMap<String, bool>>> = LazyLock::new(Default::default);

async fn receive(headers: HeaderMap, body: Bytes) -> Response {
    let secret = std::env::var("WEBHOOK_SECRET").expect("set WEBHOOK_SECRET");
    if !verify(&secret, &headers, &body) {
        return (StatusCode::UNAUTHORIZED, "not genuine").into_response();
    }
    let id = headers["webhook-id"].to_str().unwrap_or_default().to_owned();
    {
        let mut messages = MESSAGES.lock().unwrap();
        match messages.get(&id) {
            Some(true) => return "duplicate".into_response(),
            Some(false) => return (StatusCode::CONFLICT, [(header::RETRY_AFTER, "5")], "busy").into_response(),
            None => messages.insert(id.clone(), false),
        };
    }
    let handled = handle(&id, &body).await;
    let mut messages = MESSAGES.lock().unwrap();
    match handled {
        Ok(()) => {
            messages.insert(id, true);
            "handled".into_response()
        }
        Err(error) => {
            messages.remove(&id);
            eprintln!("{id} failed: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Your work. After an error, Sluice sends the message again.
async fn handle(id: &str, _body: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    println!("handled {id}");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let port = std::env::var("PORT").unwrap_or("9000".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    // axum's own limit of a body is 2 MB.
    let routes = axum::Router::new().route("/", axum::routing::post(receive)).route("/webhooks", axum::routing::post(receive));
    axum::serve(listener, routes).await
}
