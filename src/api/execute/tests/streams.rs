//! Answers of other servers that are passed on: what is logged, and how long it may take.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;
use crate::api::{Exchange, Heard, Prepared};
use crate::outside::{BodyLimit, Call, ClientConfig, Limits, Method, Pauses};
use crate::store::Lane;

/// Says what a server at a URL says.
struct Echo {
    calls: Vec<Call>,
    text: String,
}

impl Exchange for Echo {
    type Answer = Note;
    fn next_call(&mut self) -> Option<Call> {
        self.calls.pop()
    }
    fn hear(&mut self, heard: Heard, text: &mut String) -> bool {
        match heard {
            Heard::Head(_) => true,
            Heard::Piece(piece) => {
                let piece = String::from_utf8_lossy(piece);
                self.text += &piece;
                text.push_str(&piece);
                assert!(!self.text.contains("panic"), "as a fault would");
                true
            }
            Heard::End | Heard::Failed(_) => false,
        }
    }
    fn conclude(&self, _: &View, _: Duration) -> Result<Note> {
        Ok(Note { id: Id::NIL, text: self.text.clone() })
    }
    fn audited(&self) -> ResourceRef {
        ResourceRef::id(format!("{} bytes", self.text.len())).unwrap()
    }
}

fn prepare(_: &View, req: &Req<(), NewNote>) -> Result<Prepared<Echo>> {
    // The text is the URL, and the time in milliseconds.
    let (url, millis) = req.input.text.split_once(' ').unwrap();
    let total = Duration::from_millis(millis.parse().unwrap());
    let limits = Limits { total, answer: BodyLimit::UpTo(usize::MAX), https_only: false };
    let call = Call { method: Method::GET, url: url.into(), headers: vec![], body: vec![], limits };
    let exchange = Echo { calls: vec![call], text: String::new() };
    let pause = Duration::from_secs(60);
    Ok(Prepared {
        exchange,
        server: Lane::default(),
        pauses: Pauses { first: pause, between: pause },
    })
}

/// A fixture that may call this machine, and has the route.
async fn fixture() -> Fixture {
    let mut fixture = Fixture::new().await;
    let allow_private = vec!["127.0.0.0/8".parse().unwrap()];
    let outside = Outside::new(ClientConfig { allow_private, extra_roots_pem: None }).unwrap();
    Arc::get_mut(&mut fixture.executor).unwrap().outside = outside;
    let route = Route::post("/echo", MEMBER, "note.echo", op::stream(prepare));
    fixture.routes.push(Arc::new(route));
    fixture
}

/// A server whose first connection is handled so once a request has come; its URL.
async fn server<F>(serve: impl FnOnce(TcpStream) -> F + Send + 'static) -> String
where
    F: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        serve(stream).await;
    });
    url
}

#[tokio::test]
async fn an_answer_that_was_paid_is_passed_on_although_its_end_cannot_be_logged() {
    let fixture = fixture().await;
    let store = fixture.executor.store.clone();
    let url = server(async move |mut stream: TcpStream| {
        // From now on nothing is written.
        tokio::task::spawn_blocking(move || store.close()).await.unwrap();
        stream.write_all(b"Good day").await.unwrap();
    })
    .await;
    let echo = json!({"text": format!("{url} 60000")});
    let answer = fixture.call("note.echo", &[], echo, |_| ()).await.unwrap();
    assert_eq!(json_of(answer)["text"], "Good day");
    let begun = ("note.echo".into(), Some("0 bytes".into()), AuditOutcome::Success);
    assert_eq!(fixture.audited(), [begun], "what was asked is logged before");
}

#[tokio::test]
async fn what_cannot_be_logged_is_not_asked() {
    let fixture = fixture().await;
    fixture.executor.store.close();
    // Nobody listens there.
    let echo = json!({"text": "http://127.0.0.1:1/ 60000"});
    let refused = fixture.call("note.echo", &[], echo, |_| ()).await;
    assert_eq!(refused.err().unwrap().kind(), Kind::Busy);
}

#[tokio::test]
async fn a_client_that_takes_little_holds_its_slots_no_longer_than_the_time() {
    let fixture = fixture().await;
    let url = server(
        async |mut stream: TcpStream| {
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
        },
    )
    .await;
    let echo = json!({"text": format!("{url} 500")});
    let begun = Instant::now();
    let stream = |request: &mut Request| request.is_stream = true;
    let response = fixture.call("note.echo", &[], echo, stream).await.unwrap();
    let Body::TextStream(_untaken) = response.body else { panic!("no stream") };
    let free = async {
        while fixture.executor.exchanges.of_caller.figures().admitted > 0 {
            tokio::task::yield_now().await;
        }
    };
    // A client that is considered gone is so after thirty seconds.
    timeout(Duration::from_secs(20), free).await.expect("the slots are free");
    assert!(begun.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn a_stream_whose_task_has_panicked_says_that_it_failed() {
    let fixture = fixture().await;
    let url = server(async |mut stream: TcpStream| {
        stream.write_all(b"Good day").await.unwrap();
        let _ = stream.write_all(b"panic").await;
    })
    .await;
    let echo = json!({"text": format!("{url} 60000")});
    let stream = |request: &mut Request| request.is_stream = true;
    let end = match fixture.call("note.echo", &[], echo, stream).await {
        // Both pieces have come as one.
        Err(error) => error,
        Ok(response) => {
            let Body::TextStream(mut stream) = response.body else { panic!("no stream") };
            loop {
                match stream.next().await {
                    Some(StreamEvent::Text(_)) => {}
                    Some(StreamEvent::Failed(error)) => break error,
                    other => panic!("{other:?}"),
                }
            }
        }
    };
    assert_eq!(end.kind(), Kind::Internal);
}
