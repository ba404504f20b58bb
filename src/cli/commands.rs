//! Commands that are a word before others: `roadstead task list`.

/// Declares a command and those below it, of which each has a method `run`.
///
/// ```ignore
/// commands! {
///     /// List and create tasks
///     pub Task of TaskCommand { List(List), Create(Create) }
/// }
/// ```
macro_rules! commands {
    (
        $(#[$about:meta])*
        $visibility:vis $name:ident of $each:ident { $($variant:ident($command:ty)),* $(,)? }
    ) => {
        #[derive(clap::Args)]
        $(#[$about])*
        $visibility struct $name {
            #[command(subcommand)]
            command: $each,
        }

        #[derive(clap::Subcommand)]
        enum $each { $($variant($command)),* }

        impl $name {
            pub(crate) fn run(self) -> Result<(), $crate::cli::failure::Failure> {
                match self.command { $($each::$variant(command) => command.run()),* }
            }
        }
    };
}

pub(super) use commands;
