//! `--set NAME=VALUE`: values of variables.

use clap::Args;
use serde_json::{Map, Value};

use super::text_file;
use crate::cli::failure::Failure;

/// Values of variables.
#[derive(Args)]
pub struct Assignments {
    /// Value of a variable; repeatable
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,

    /// File with the value of a variable, - for stdin; repeatable
    #[arg(long = "set-file", value_name = "NAME=FILE", value_parser = assignment)]
    set_file: Vec<(String, String)>,
}

impl Assignments {
    /// Returns the values by name, those of files read.
    ///
    /// # Errors
    /// Usage, if a variable is given twice or a file cannot be read.
    pub fn read(&self) -> Result<Map<String, Value>, Failure> {
        let mut values = Map::new();
        let mut put = |name: &str, value: String| match values.insert(name.into(), value.into()) {
            None => Ok(()),
            Some(_) => Err(Failure::Usage(format!("the variable {name} is given twice"))),
        };
        self.set.iter().try_for_each(|(name, value)| put(name, value.clone()))?;
        for (name, path) in &self.set_file {
            put(name, text_file::read_text(path)?)?;
        }
        Ok(values)
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("give NAME=VALUE".into()),
    }
}
