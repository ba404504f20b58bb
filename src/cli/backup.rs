//! `roadstead backup`

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Read as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::installation::Installation;
use super::output;
use super::passphrase::{self, DecryptionFlags};
use crate::app::DataDir;
use crate::app::backup::{
    self, BackupWanted, BackupWriter, Encryption, Header, LastBackup, LeftOut, Source, Target,
    Totals, needed_key,
};
use crate::store::lower_priority;

/// Make a backup, while servers run or not; or verify one
#[derive(Args)]
#[command(after_help = "The backup is of one moment: everything that was acknowledged before the \
                        command is in it. It is written beside FILE, verified, and gets its name \
                        when it is complete.\n\nThe key of the installation is not in it, unless \
                        --with-secret-key is given, which needs encryption. Without the key the \
                        secrets in a backup cannot be decrypted: keep a copy of it elsewhere.\n\n\
                        Examples:\n  roadstead backup roadstead-$(date +%F).backup\n  \
                        roadstead backup --recipient age1… - | ssh vault 'cat > roadstead.backup'\n\n\
                        Exit codes: 0 done, 1 failed or damaged, 2 cannot be done.")]
pub struct Backup {
    /// The file to write, or to read with --verify; - for stdout or stdin
    #[arg(value_name = "FILE")]
    file: String,

    /// Read and verify FILE instead of making a backup
    #[arg(long, env = "ROADSTEAD_VERIFY", conflicts_with_all = ["replace", "ask_passphrase", "recipient", "with_secret_key", "despite_damage"])]
    verify: bool,

    /// Replace FILE if it is an earlier backup
    #[arg(long, env = "ROADSTEAD_REPLACE")]
    replace: bool,

    /// Encrypt to a passphrase that the terminal is asked for
    #[arg(long, env = "ROADSTEAD_ASK_PASSPHRASE", conflicts_with_all = ["passphrase_file", "recipient"])]
    ask_passphrase: bool,

    /// Encrypt to an age recipient: a public key, age1…; repeatable
    #[arg(long, value_name = "KEY", env = "ROADSTEAD_RECIPIENT", value_delimiter = ',')]
    recipient: Vec<String>,

    /// Put the installation's key into the backup, which must be encrypted
    #[arg(long, env = "ROADSTEAD_WITH_SECRET_KEY")]
    with_secret_key: bool,

    /// Make it although there is damage: records that cannot be read are left out, and listed
    #[arg(long, env = "ROADSTEAD_DESPITE_DAMAGE")]
    despite_damage: bool,

    #[command(flatten)]
    decryption: DecryptionFlags,

    #[command(flatten)]
    installation: Installation,
}

/// What stands for stdin and stdout.
const STANDARD: &str = "-";

impl Backup {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        if self.verify {
            return self.run_verify();
        }
        let file = self.decryption.passphrase_file.as_deref().filter(|_| self.recipient.is_empty());
        let elsewhere = self.installation.shared_to_read()?;
        let elsewhere = elsewhere.map(|store| Source::Elsewhere(Box::new(store)));
        let is_elsewhere = elsewhere.is_some();
        let encryption = passphrase::encryption(self.ask_passphrase, file, &self.recipient)?;
        if self.with_secret_key && !encryption.is_any() {
            return Err(Failure::Usage(
                "--with-secret-key needs encryption: give --recipient, --ask-passphrase or \
                 --passphrase-file too"
                    .into(),
            ));
        }
        let made = if self.file == STANDARD {
            self.to_stdout(&encryption, elsewhere)
        } else {
            self.to_file(&encryption, elsewhere)
        };
        output::progress("");
        let made = made?;
        // The backup is there, whether it can be recorded or not.
        if !is_elsewhere
            && let Err(error) = backup::record(&self.installation.data_dir(), made.last())
        {
            output::error(&format!("the backup is complete, but not recorded: {error}"));
        }
        self.report(&made)
    }

    fn to_file(&self, encryption: &Encryption, elsewhere: Option<Source>) -> Result<Made, Failure> {
        let path = Path::new(&self.file);
        let dir = self.installation.data_dir();
        if elsewhere.is_none() {
            refuse_inside(path, &dir)?;
            dir.require_exists()?;
        }
        let target = Target::create(path, self.replace)?;
        let out = Hashed { out: BufWriter::new(target), hash: blake3::Hasher::new(), bytes: 0 };
        let (out, header, totals) = self.write(encryption, out, elsewhere)?;
        let hash = out.hash.finalize();
        let mut target =
            out.out.into_inner().map_err(|error| Failure::io(&self.file)(error.into_error()))?;
        let bytes = target.sync().map_err(|error| {
            Failure::Failed(format!("{} could not be written: {error}", self.file))
        })?;
        verify_written(target.unfinished(), encryption, &hash, &totals)?;
        target.complete().map_err(Failure::io(&self.file))?;
        let encrypted = encryption.is_any();
        Ok(Made { header, totals, bytes, encrypted, verified: true })
    }

    fn to_stdout(
        &self,
        encryption: &Encryption,
        elsewhere: Option<Source>,
    ) -> Result<Made, Failure> {
        if io::stdout().is_terminal() {
            return Err(Failure::Usage(
                "a backup is no text for a terminal; redirect stdout, or name a file".into(),
            ));
        }
        let out = Hashed { out: io::stdout().lock(), hash: blake3::Hasher::new(), bytes: 0 };
        let (mut out, header, totals) = self.write(encryption, out, elsewhere)?;
        out.flush().map_err(Failure::io("stdout"))?;
        let (bytes, encrypted) = (out.bytes, encryption.is_any());
        Ok(Made { header, totals, bytes, encrypted, verified: false })
    }

    /// Writes a backup, and returns what it was written to.
    fn write<W: Write>(
        &self,
        encryption: &Encryption,
        out: W,
        elsewhere: Option<Source>,
    ) -> Result<(W, Header, Totals), Failure> {
        // Compressing and encrypting take as much time as reading; requests go first.
        lower_priority();
        let dir = self.installation.data_dir();
        let source = match elsewhere {
            Some(source) => source,
            None => {
                let (with_secret_key, despite_damage) = (self.with_secret_key, self.despite_damage);
                Source::open(&dir, BackupWanted { with_secret_key, despite_damage })?
            }
        };
        let mut show = |totals: &Totals| show("Backup", totals);
        let cannot = || Failure::io(&self.file);
        let writer = BackupWriter::new(encryption.wrap(out)?, &mut show).map_err(cannot())?;
        let writer = writer.collecting_audit_heads(self.installation.json());
        let mut writer = writer.leaving_out(self.despite_damage);
        source.send(&dir, self.with_secret_key, &mut writer)?;
        let (out, header, totals) = writer.finish().map_err(cannot())?;
        let out = out.finish().map_err(cannot())?;
        Ok((out, header, totals))
    }

    fn report(&self, made: &Made) -> Result<(), Failure> {
        let Made { header, totals, bytes, encrypted, verified } = made;
        let mut value = described(header, totals);
        value["file"] = json!(self.file);
        value["bytes"] = json!(bytes);
        value["encrypted"] = json!(encrypted);
        value["verified"] = json!(verified);
        let key = match &header.secret_key {
            Some(_) => "The installation's key is in it.".to_string(),
            None => format!(
                "The installation's key, {}, is not in it: keep a copy of it elsewhere.",
                needed_key(header)
            ),
        };
        let checked = if *verified { ", verified" } else { "" };
        let text = format!(
            "Backed up {} records to {} ({bytes} bytes{checked}).\n{}{key}",
            totals.records,
            self.file,
            described_left_out(totals)
        );
        if self.file != STANDARD {
            return output::print(self.installation.json(), &value, &text);
        }
        // Stdout has the backup.
        if self.installation.json() {
            output::status(&value.to_string());
        } else if io::stderr().is_terminal() {
            output::status(&text);
        } else if !totals.left_out.is_nothing() {
            output::status(&described_left_out(totals));
        }
        Ok(())
    }

    fn run_verify(&self) -> Result<(), Failure> {
        let decryption = self.decryption.read()?;
        let (input, encrypted) = decryption
            .unwrap(open(&self.file)?, &mut passphrase::ask)
            .map_err(|error| error.of(&self.file))?;
        let verified = backup::Backup::open(input).and_then(|backup| {
            let backup = backup.collecting_audit_heads(self.installation.json());
            backup.read(|_, _, _| Ok(()), &mut |totals| show("Verified", totals))
        });
        output::progress("");
        let (header, totals) = verified.map_err(|error| error.of(&self.file))?;
        let mut value = described(&header, &totals);
        value["file"] = json!(self.file);
        value["encrypted"] = json!(encrypted);
        value["verified"] = json!(true);
        let text = format!(
            "{}: complete, and as it was written: {} records of {}, each of which can be decoded; its \
             key is {}{}\n{}\nIt was not looked at whether the records fit together, whether the audit \
             logs are unbroken, and whether secrets can be decrypted: restore it elsewhere and run \
             roadstead check.",
            self.file,
            totals.records,
            header.taken_at,
            needed_key(&header),
            if header.secret_key.is_some() { ", which is in it" } else { "" },
            described_left_out(&totals),
        );
        output::print(self.installation.json(), &value, &text)
    }
}

/// A backup that was made.
struct Made {
    header: Header,
    totals: Totals,
    bytes: u64,
    encrypted: bool,
    verified: bool,
}

impl Made {
    fn last(&self) -> LastBackup {
        LastBackup {
            backup_id: self.header.backup_id.clone(),
            taken_at: self.header.taken_at,
            bytes: self.bytes,
            records: self.totals.records,
            encrypted: self.encrypted,
        }
    }
}

/// What is said of a backup as JSON.
pub fn described(header: &Header, totals: &Totals) -> Value {
    json!({
        "backupId": header.backup_id,
        "takenAt": header.taken_at,
        "installation": header.installation,
        "version": header.version,
        "records": totals.records,
        "contentBytes": totals.bytes,
        "blocks": totals.blocks,
        "key": needed_key(header),
        "hasSecretKey": header.secret_key.is_some(),
        "auditCheckpoints": header.audit_checkpoints,
        "leftOut": totals.left_out,
    })
}

/// Says which records are not in a backup, a line each; nothing if all are.
pub fn described_left_out(totals: &Totals) -> String {
    let LeftOut { count, records } = &totals.left_out;
    if *count == 0 {
        return String::new();
    }
    let mut text =
        format!("Records that could not be read when it was made, and are not in it: {count}\n");
    text.push_str(&output::first_lines(records));
    if *count > output::MAX_SHOWN as u64 {
        text.push_str("  … (--json has the first 1,000)\n");
    }
    text
}

/// Shows the progress on a terminal.
pub fn show(what: &str, totals: &Totals) {
    let mib = totals.bytes / (1024 * 1024);
    output::progress(&format!("{what}: {} records, {mib} MiB", totals.records));
}

/// Opens a backup to read, `-` for stdin.
pub fn open(file: &str) -> Result<BufReader<Box<dyn io::Read>>, Failure> {
    let input: Box<dyn io::Read> = if file == STANDARD {
        Box::new(io::stdin())
    } else {
        let opened = File::open(file)
            .map_err(|error| Failure::Usage(format!("{file} cannot be read: {error}")))?;
        if opened.metadata().map_err(Failure::io(file))?.is_dir() {
            return Err(Failure::Usage(format!("{file} is a directory, not a backup")));
        }
        Box::new(opened)
    };
    Ok(BufReader::with_capacity(256 * 1024, input))
}

/// Reads what was written again: all of it, or, if only others can decrypt it, its hash.
fn verify_written(
    path: &Path,
    encryption: &Encryption,
    hash: &blake3::Hash,
    totals: &Totals,
) -> Result<(), Failure> {
    let differs = || Failure::Failed("what was written is not what can be read again".to_string());
    let Some(decryption) = encryption.decryption() else {
        let mut read = blake3::Hasher::new();
        let mut file = File::open(path).map_err(Failure::io(path.display()))?;
        let mut bytes = vec![0; 256 * 1024];
        loop {
            match file.read(&mut bytes).map_err(Failure::io(path.display()))? {
                0 => break,
                len => read.update(&bytes[..len]),
            };
        }
        return if read.finalize() == *hash { Ok(()) } else { Err(differs()) };
    };
    let file = File::open(path).map_err(Failure::io(path.display()))?;
    let file = BufReader::with_capacity(256 * 1024, file);
    let (input, _) = decryption.unwrap(file, &mut passphrase::ask)?;
    let (_, read) = backup::verify(input, &mut |totals| show("Verified", totals))?;
    if read == *totals { Ok(()) } else { Err(differs()) }
}

/// Refuses a file in the data directory: it would be lost with it.
pub(super) fn refuse_inside(path: &Path, dir: &DataDir) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    let parent = std::fs::canonicalize(&parent)
        .map_err(|error| Failure::Usage(format!("{}: {error}", parent.display())))?;
    if dir.exists() && parent.starts_with(dir.absolute()) {
        return Err(Failure::Usage(format!(
            "{} is in the data directory, and would be lost with it; choose another place",
            path.display()
        )));
    }
    Ok(())
}

/// Hashes and counts what is written.
struct Hashed<W> {
    out: W,
    hash: blake3::Hasher,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
