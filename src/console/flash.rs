//! Texts that the page after a form shows once. A cookie holds the name of one, never a text.

/// Declares the texts, each with its name.
macro_rules! texts {
    ($($name:ident = $text:literal,)*) => {
        /// A text for the next page.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flash {
            $(#[doc = $text] $name,)*
        }

        /// All of them: the name in the cookie, and the text.
        const ALL: &[(Flash, &str, &str)] = &[$((Flash::$name, stringify!($name), $text),)*];
    };
}

texts! {
    AccountSaved = "Your account was saved.",
    PasswordChanged = "Your password was changed, and all other sessions were signed out.",
    SecondFactorOff = "Your second factor is off. Signing in takes your password alone.",
    SecondFactorReset = "The second factor was reset. Signing in takes the password alone.",
    SecondFactorRequired = "Members without a second factor read nothing here until they turn one on.",
    SecondFactorOptional = "Members need no second factor any more.",
    ResetMailed = "If the address has an account, a link is on its way there.",
    SignedOut = "You are signed out.",
    SignedOutHere = "You are signed out here. Your provider could not be asked to sign you out there, where you may still be signed in.",
    ConfirmLink = "An account here has this e-mail address. Sign in to it as usual once, to confirm that it is yours.",
    Linked = "The account is linked. From now on you can sign in with it.",
    Unlinked = "The account is not linked any more.",
    SignInSaved = "The settings were saved. They apply at once.",
    CommandLineLetIn = "The command line is signed in. You find it among your sessions, and can sign it out there.",
    CommandLineRefused = "The command line was not let in.",
    SessionEnded = "The session was signed out.",
    SessionsEnded = "All other sessions were signed out.",
    Joined = "Welcome. You are a member now.",
    TasksMoved = "The tasks were moved.",
    DocumentsDeleted = "The documents were deleted.",
    OrganizationSaved = "The organization was saved.",
    OrganizationCreated = "The organization was created.",
    RegistryCreated = "The registry was created.",
    RegistrySaved = "The registry was saved.",
    RegistryDeleted = "The registry was deleted.",
    Published = "The version was published.",
    DraftSaved = "The draft was saved.",
    DraftDeleted = "The draft was deleted.",
    LabelMoved = "The label was moved. It takes effect at once.",
    LabelRemoved = "The label was removed.",
    LabelWaits = "The label is where it was. It is moved when this is approved.",
    LabelProtected = "The label is protected: admins and owners move it. Choose who else, and who approves.",
    LabelProtectionSaved = "The protection was saved.",
    LabelUnprotected = "The label is not protected any more.",
    LabelChangeDenied = "The change was denied.",
    LabelChangeCancelled = "The change was cancelled.",
    InputSaved = "The input was saved.",
    InputDeleted = "The input was deleted.",
    VersionDeleted = "The version was deleted.",
    Approved = "Your approval is recorded.",
    Denied = "The deployment was denied.",
    Cancelled = "The job was cancelled.",
    RollbackBegun = "This job brings the targets back to what was live before.",
    InvitationRevoked = "The invitation was revoked.",
    MemberSaved = "The member was saved.",
    MemberRemoved = "The member was removed.",
    Left = "You have left the organization.",
    ServiceAccountCreated = "The service account was created.",
    KeyRevoked = "The key was revoked.",
    KeyTakenOver = "You answer for the key now.",
    GrantCreated = "Access was granted.",
    GrantRemoved = "The grant was removed.",
    ProviderCreated = "The provider was created.",
    ProviderSaved = "The provider was saved.",
    ProviderDeleted = "The provider was deleted.",
    PriceSet = "The price was set. Runs that are reported from now on cost by it.",
    PriceDeleted = "The price was deleted.",
    Redelivered = "The entry is delivered again.",
    AllRedelivered = "The entries are delivered again.",
    RedeliveryBegun = "The entries are delivered again, a few at a time.",
    ChannelCreated = "The channel was created. Choose what it delivers.",
    ChannelSaved = "The channel was saved.",
    ChannelDeleted = "The channel was deleted.",
    Subscribed = "The channel delivers these events from now on.",
    Unsubscribed = "The channel does not deliver these events any more.",
    EnvironmentCreated = "The environment was created.",
    EnvironmentSaved = "The environment was saved.",
    EnvironmentDeleted = "The environment was deleted.",
    VariableSet = "The variable was set.",
    VariableRemoved = "The variable was removed.",
    SecretSet = "The secret was set.",
    SecretRemoved = "The secret was removed.",
    CredentialSet = "The credential was set.",
    CredentialRemoved = "The credential was removed.",
    ToolCreated = "The tool was created.",
    ToolSaved = "The tool was saved.",
    TagsSaved = "The tags were saved.",
    ToolDeleted = "The tool was deleted.",
    PolicyCreated = "The policy was created. Assign it to a registry.",
    PolicySaved = "The policy was saved.",
    PolicyDeleted = "The policy was deleted.",
    PolicyAssigned = "The policy was assigned.",
    PolicyUnassigned = "The policy does not examine that registry any more.",
    FlagCleared = "The flag was cleared.",
    ListingCreated = "The agent is listed. Verify its domain next.",
    ListingSaved = "The listing was saved.",
    ListingPublished = "Anyone can find the listing now.",
    ListingHidden = "Only your organization sees the listing now.",
    ListingDeleted = "The listing was deleted.",
    RuleSet = "The rule applies from the next request on.",
    RuleDeleted = "The rule was deleted.",
    WakesRetried = "It is woken once more.",
    WakesDropped = "The wakes were dropped.",
    WakeUrlSet = "Its wakes are posted there from now on.",
    WakeUrlCleared = "Its wakes are not posted any more.",
    DomainAdded = "The domain was added.",
    DomainReleased = "The domain was released.",
    KnowledgeBaseCreated = "The knowledge base was created.",
    KnowledgeBaseSaved = "The knowledge base was saved.",
    KnowledgeBaseDeleted = "The knowledge base was deleted.",
    DocumentAdded = "The document was added.",
    DocumentsAdded = "The documents were added.",
    DocumentSaved = "The document was replaced.",
    DocumentDeleted = "The document was deleted.",
    TaskOpen = "The task is open.",
    TaskInProgress = "The task is in progress.",
    TaskBlocked = "The task is blocked.",
    TaskDone = "The task is done.",
    TaskCancelled = "The task is cancelled.",
    TaskCreated = "The task was created.",
    TaskSaved = "The task was saved.",
    NoteAdded = "The note was added.",
    MessageRead = "The message is marked as read.",
    Answered = "Your answer was sent.",
    TeamCreated = "The team was created. Add its agents next.",
    TeamSaved = "The team was saved.",
    TeamDeleted = "The team was deleted.",
    TeamApproved = "You approved. The agent reads it when it looks.",
    TeamDenied = "You denied. The agent reads it when it looks.",
    AgentHired = "The agent is in the team now.",
    AgentRemoved = "The agent has left the team.",
    TeamAgentSaved = "Role and skills were saved.",
    MemoryForgotten = "The memory is forgotten.",
    TimelineAdded = "The entry was added.",
    PeerAccepted = "The outside agent may write to the team now.",
    PeerRefused = "The outside agent was refused, and reads why.",
    PeerBlocked = "The outside agent is blocked.",
    PeerForgotten = "The outside agent is forgotten.",
    PeerWritten = "Your message was sent.",
    AgentCreated = "The agent was created.",
    AgentSaved = "The draft was saved. Nothing that runs has changed.",
    AgentDeleted = "The agent was deleted.",
    AgentVersioned = "The draft is a version now.",
    AgentRestored = "The draft is as that version was. Deploy it to make it live.",
    Paused = "It is paused. What comes meanwhile waits.",
    Resumed = "It goes on, with what has waited.",
    ScheduleCreated = "The schedule was created.",
    ScheduleSaved = "The schedule was saved.",
    ScheduleDeleted = "The schedule was deleted.",
    FleetCreated = "The fleet was created.",
    FleetSaved = "The fleet was saved.",
    FleetDeleted = "The fleet was deleted. Its agents stay.",
    Deployed = "The deployment was created.",
}

impl Flash {
    /// Its name in the cookie.
    pub fn name(self) -> &'static str {
        let found = ALL.iter().find(|(flash, ..)| *flash == self);
        found.map_or("", |(_, name, _)| name)
    }

    /// Whether a text says that what was typed, and the browser kept, is on the server now.
    pub fn accepts_draft(text: &'static str) -> bool {
        let accepts = [
            Flash::Published,
            Flash::DraftSaved,
            Flash::NoteAdded,
            Flash::Answered,
            Flash::PeerWritten,
        ];
        accepts.iter().any(|flash| Flash::text(flash.name()) == Some(text))
    }

    /// The text of a name.
    pub fn text(name: &str) -> Option<&'static str> {
        ALL.iter().find(|(_, known, _)| *known == name).map(|(_, _, text)| *text)
    }
}
