//! Mistakes in declarations that the document reports.

use super::*;

#[test]
fn mistakes_of_routes_are_reported() {
    assert_eq!(problems(Contents::routes(&routes())), Vec::<String>::new());
    let assert_refused = |routes: &[Route], part: &str| {
        let problems = problems(Contents::routes(routes));
        assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
    };
    let tide = |path, name| Route::get(path, ANYONE, name, op::read::<(), (), Empty>(read));
    assert_refused(&[tide("/a", "a.get")], "does not say what it does");
    assert_refused(&[tide("/a/{b}", "a.get")], "takes 0 path parameters");
    assert_refused(&[tide("/a", "a.get"), tide("/b", "a.get")], "is called a.get too");
    assert_refused(&[tide("/a", "a.get"), tide("/a", "b.get")], "declared twice");
    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum Either {
        One(String),
    }
    impl Input for Either {}
    let either = Route::get("/a", ANYONE, "a.get", op::read::<(), Either, Empty>(read));
    assert_refused(&[either], "named fields");
}

#[test]
fn two_types_that_a_client_would_call_the_same_are_reported() {
    mod elsewhere {
        use super::*;
        #[derive(Serialize, JsonSchema)]
        pub struct Boat {
            pub sauce: bool,
        }
        impl Output for Boat {
            fn resource(&self) -> Option<ResourceRef> {
                None
            }
        }
        #[derive(Deserialize, JsonSchema)]
        pub struct Crew {
            pub rowers: u8,
        }
        impl Input for Crew {}
        #[derive(Serialize, JsonSchema)]
        pub struct NewTide {
            pub height: u8,
        }
        impl Output for NewTide {
            fn resource(&self) -> Option<ResourceRef> {
                None
            }
        }
        #[derive(Serialize, JsonSchema)]
        #[schemars(rename = "BOAT")]
        pub struct LoudBoat {
            pub horn: bool,
        }
        impl Output for LoudBoat {
            fn resource(&self) -> Option<ResourceRef> {
                None
            }
        }
        #[derive(Deserialize, JsonSchema)]
        #[schemars(extend("examples" = [{"name": "Ark"}]))]
        pub struct CreateBoat {
            pub name: String,
        }
        impl Input for CreateBoat {}
        #[derive(Serialize, JsonSchema)]
        pub struct PageOfBoat {
            pub number: u8,
        }
        impl Output for PageOfBoat {
            fn resource(&self) -> Option<ResourceRef> {
                None
            }
        }
    }
    let assert_refused = |more: Route, part: &str| {
        let mut routes = routes();
        routes.push(more.about("Something else"));
        let problems = problems(Contents::routes(&routes));
        assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
    };
    let get = Route::get("/b", MEMBER, "b.get", op::read::<(), (), elsewhere::Boat>(read));
    assert_refused(get, "two types are called Boat");
    let post = Route::post("/b", MEMBER, "b.get", op::write::<(), elsewhere::Crew, Empty>(write));
    assert_refused(post, "two types are called Crew");
    let page = Route::get("/b", MEMBER, "b.get", op::read::<(), (), elsewhere::PageOfBoat>(read));
    assert_refused(page, "as is a page of a list");
    let new = Route::get("/b", MEMBER, "b.get", op::read::<(), (), elsewhere::NewTide>(read));
    assert_refused(new, "NewTide is what Go calls the constructor of Tide");
    let loud = Route::get("/b", MEMBER, "b.get", op::read::<(), (), elsewhere::LoudBoat>(read));
    assert_refused(loud, "BOAT and Boat differ only in the case of letters");
    let create = op::write::<(), elsewhere::CreateBoat, Empty>(write);
    assert_refused(Route::post("/b", MEMBER, "b.get", create), "a type is called CreateBoat");
}
