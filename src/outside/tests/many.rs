//! Several calls together.

use tokio::sync::oneshot;

use super::*;

/// Reads the request on this connection and answers it with `body`.
async fn reply(mut stream: TcpStream, body: &str) {
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    exchange(&mut stream, answer.as_bytes()).await;
}

fn far_deadline() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn bodies(results: Vec<CallResult>) -> Vec<String> {
    results.into_iter().map(|one| String::from_utf8(one.answer.unwrap().body).unwrap()).collect()
}

#[tokio::test]
async fn results_are_in_the_order_of_the_calls() {
    let (done, earlier) = oneshot::channel();
    let (first, _) = server(async |stream: TcpStream| {
        earlier.await.unwrap();
        reply(stream, "first").await;
    })
    .await;
    let (second, _) = server(async |stream: TcpStream| {
        reply(stream, "second").await;
        done.send(()).unwrap();
    })
    .await;
    let calls = [first, second].map(|port| get(format!("http://127.0.0.1:{port}/"))).to_vec();
    let results = open_to_loopback().send_all(calls, 8, far_deadline()).await;
    assert_eq!(bodies(results), ["first", "second"]);
}

#[tokio::test]
async fn concurrency_is_bounded_and_a_call_starts_when_another_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let calls = vec![get(format!("http://127.0.0.1:{port}/")); 4];
    let client = open_to_loopback();
    let sending = tokio::spawn(async move { client.send_all(calls, 2, far_deadline()).await });

    let accepted = async || listener.accept().await.unwrap().0;
    let (one, other) = (accepted().await, accepted().await);
    // Both are still in flight.
    assert!(timeout(Duration::from_millis(100), accepted()).await.is_err());
    reply(one, "1").await;
    // The third need not wait for the oldest one.
    let third = accepted().await;
    assert!(timeout(Duration::from_millis(100), accepted()).await.is_err());
    reply(third, "3").await;
    reply(accepted().await, "4").await;
    reply(other, "2").await;
    assert_eq!(sending.await.unwrap().len(), 4);
}

#[tokio::test]
async fn no_call_is_started_after_a_result_that_ends_them() {
    let (first, _) = answering(OK).await;
    let (trap_port, listener) = unused_listener();
    let calls = [first, trap_port, trap_port];
    let calls = calls.map(|port| get(format!("http://127.0.0.1:{port}/"))).to_vec();
    let goes_on = |index, result: &CallResult| {
        assert!(index == 0 && result.answer.is_ok(), "{index}: {result:?}");
        false
    };
    let results = open_to_loopback().send_while(calls, 1, far_deadline(), goes_on).await;
    assert_eq!(bodies(results), ["ok"], "the others have no result");
    assert!(no_connection(&listener));
}

#[tokio::test]
async fn at_the_deadline_running_calls_end_and_waiting_calls_are_not_sent() {
    let (quick, _) = answering(OK).await;
    let (hush, hushed) = server(limits::silent).await;
    let (trap_port, listener) = unused_listener();
    let mut calls: Vec<Call> =
        [quick, hush, trap_port].map(|port| get(format!("http://127.0.0.1:{port}/"))).to_vec();
    calls.push(get("no URL"));
    let limit = Duration::from_secs(2);
    let results = open_to_loopback().send_all(calls, 1, Instant::now() + limit).await;

    let [done, cut, never, wrong] = results.try_into().unwrap();
    assert_eq!(done.answer.unwrap().body, b"ok");
    let failure = cut.answer.unwrap_err();
    // The whole time, not what the first call left of it.
    assert_eq!(failure.to_string(), "127.0.0.1 gave no complete answer within 2 s");
    assert!(cut.took > Duration::ZERO && cut.took <= 10 * limit, "{:?}", cut.took);
    assert!(matches!(never.answer, Err(Failure::TimedOut { .. })), "{never:?}");
    assert_eq!(never.took, Duration::ZERO);
    assert!(matches!(wrong.answer, Err(Failure::Url(_))), "{wrong:?}");
    assert!(no_connection(&listener));
    hushed.await.unwrap();
}

#[tokio::test]
async fn a_call_among_several_keeps_its_own_limit() {
    let (hush, _hushed) = server(limits::silent).await;
    let mut call = get(format!("http://127.0.0.1:{hush}/"));
    call.limits.total = Duration::from_millis(100);
    let results = open_to_loopback().send_all(vec![call], 8, far_deadline()).await;
    let after = Duration::from_millis(100);
    let expected = Failure::TimedOut { host: "127.0.0.1".into(), after };
    assert_eq!(results[0].answer, Err(expected));
    assert!(results[0].took >= after, "{:?}", results[0].took);
}

#[tokio::test]
async fn dropping_the_future_closes_every_connection() {
    let (arrived, arrival) = oneshot::channel();
    let (port, served) = server(async move |mut stream: TcpStream| {
        read_request(&mut stream).await;
        arrived.send(()).unwrap();
        stream.read(&mut [0]).await.unwrap()
    })
    .await;
    let client = open_to_loopback();
    let calls = vec![get(format!("http://127.0.0.1:{port}/"))];
    let sending = tokio::spawn(async move { client.send_all(calls, 8, far_deadline()).await });
    arrival.await.unwrap();
    sending.abort();
    assert_eq!(served.await.unwrap(), 0);
}

#[tokio::test]
async fn the_size_of_all_answers_together_is_bounded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answered = tokio::spawn(async move {
        let body = "x".repeat(1024 * 1024);
        for answered in 0.. {
            let Ok(Ok((stream, _))) = timeout(Duration::from_secs(3), listener.accept()).await
            else {
                return answered;
            };
            reply(stream, &body).await;
        }
        unreachable!("the calls end")
    });
    let mut call = get(format!("http://127.0.0.1:{port}/"));
    call.limits.answer = BodyLimit::UpTo(1024 * 1024);
    let results = open_to_loopback().send_all(vec![call; 100], 1, far_deadline()).await;
    let (kept, others) = results.split_at(64);
    assert!(kept.iter().all(|one| one.answer.is_ok()));
    let too_large = |one: &CallResult| matches!(one.answer, Err(Failure::TooLarge { .. }));
    assert!(others.iter().all(too_large), "{others:?}");
    assert_eq!(answered.await.unwrap(), 65);
}
