//! Frames that wait in a file without a name: it is gone when nobody holds it any more, however
//! this process ends.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use prost::Message;

use crate::fault::{Fault, Result, unknown};

/// Messages of one kind, written first and read afterwards.
pub struct Aside {
    file: BufWriter<File>,
    count: usize,
}

impl Aside {
    pub fn new(folder: &Path) -> Result<Self> {
        Ok(Aside { file: BufWriter::new(tempfile::tempfile_in(folder)?), count: 0 })
    }

    pub fn push(&mut self, message: &impl Message) -> Result<()> {
        let bytes = message.encode_to_vec();
        self.file.write_all(&bytes.len().to_le_bytes())?;
        self.file.write_all(&bytes)?;
        self.count += 1;
        Ok(())
    }

    /// All of them, from the first on, one in memory at a time.
    pub fn read<M: Message + Default>(self) -> Result<impl Iterator<Item = Result<M>>> {
        let file = self.file.into_inner();
        let mut file = file.map_err(|error| Fault::from(error.into_error()))?;
        file.rewind()?;
        let mut file = BufReader::new(file);
        let mut next = move || {
            let mut length = [0; size_of::<usize>()];
            file.read_exact(&mut length)?;
            let mut bytes = vec![0; usize::from_le_bytes(length)];
            file.read_exact(&mut bytes)?;
            M::decode(&bytes[..]).map_err(|_| unknown("what was put aside is damaged"))
        };
        Ok((0..self.count).map(move |_| next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_it_got() {
        let folder = tempfile::tempdir().unwrap();
        let mut aside = Aside::new(folder.path()).unwrap();
        let texts = ["one", "", "three"].map(String::from);
        for text in &texts {
            aside.push(text).unwrap();
        }
        let back: Result<Vec<String>> = aside.read().unwrap().collect();
        assert_eq!(back.unwrap(), texts);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
