//! A scanner of JSON text that is known to be valid. serde_json checks the syntax; what it hands on would have been
//! through floating point, so numbers are taken from the text itself, and each byte is looked at once.

use crate::error::CircomError;

/// A piece of JSON; separators are left out, since the text is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// `{`
    ObjectStart,
    /// `}`
    ObjectEnd,
    /// `[`
    ArrayStart,
    /// `]`
    ArrayEnd,
    /// A string with its quotes and escapes; a key or a value.
    String(&'a str),
    /// A number's text.
    Number(&'a str),
    /// `true` or `false`.
    Boolean,
    /// `null`.
    Null,
}

/// The tokens of a valid JSON text.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Scanner<'a> {
    /// Checks that `bytes` is one JSON value.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, CircomError> {
        let text =
            std::str::from_utf8(bytes).map_err(|error| CircomError::InputEncoding { offset: error.valid_up_to() })?;
        // Ignoring a value checks it without recursion; its errors hold a place and no text.
        serde_json::from_str::<&serde_json::value::RawValue>(text)
            .map_err(|error| CircomError::InputSyntax { message: error.to_string() })?;
        Ok(Self { text, position: 0 })
    }

    /// The text of a string token, or `None` if an escape is half of a surrogate pair.
    pub(crate) fn decode(token: &'a str) -> Option<std::borrow::Cow<'a, str>> {
        if token.contains('\\') {
            serde_json::from_str::<String>(token).ok().map(Into::into)
        } else {
            Some(token.trim_matches('"').into())
        }
    }

    fn string_end(&self, start: usize) -> usize {
        let mut escaped = false;
        for (index, byte) in self.text.bytes().enumerate().skip(start + 1) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => return index + 1,
                _ => {}
            }
        }
        self.text.len()
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let rest = self.text.as_bytes().get(self.position..)?;
        let skipped = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':'))?;
        let start = self.position + skipped;
        let (token, end) = match rest.get(skipped)? {
            b'{' => (Token::ObjectStart, start + 1),
            b'}' => (Token::ObjectEnd, start + 1),
            b'[' => (Token::ArrayStart, start + 1),
            b']' => (Token::ArrayEnd, start + 1),
            b'"' => {
                let end = self.string_end(start);
                (Token::String(self.text.get(start..end)?), end)
            }
            first => {
                let word = self.text.get(start..)?;
                let length = word.find([',', '}', ']', ' ', '\t', '\n', '\r']).unwrap_or(word.len());
                let token = match first {
                    b't' | b'f' => Token::Boolean,
                    b'n' => Token::Null,
                    _ => Token::Number(word.get(..length)?),
                };
                (token, start + length)
            }
        };
        self.position = end;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_token() {
        let text = " {\"a\\\"]\" : [1,-2.5e3 , \"x\\\\\",\"\"], \"b\":{}, \"c\":[true,false,null] }\n";
        let tokens: Vec<_> = Scanner::new(text.as_bytes()).unwrap().collect();
        assert_eq!(
            tokens,
            [
                Token::ObjectStart,
                Token::String("\"a\\\"]\""),
                Token::ArrayStart,
                Token::Number("1"),
                Token::Number("-2.5e3"),
                Token::String("\"x\\\\\""),
                Token::String("\"\""),
                Token::ArrayEnd,
                Token::String("\"b\""),
                Token::ObjectStart,
                Token::ObjectEnd,
                Token::String("\"c\""),
                Token::ArrayStart,
                Token::Boolean,
                Token::Boolean,
                Token::Null,
                Token::ArrayEnd,
                Token::ObjectEnd,
            ]
        );
        assert_eq!(Scanner::decode("\"a\\\"]\"").as_deref(), Some("a\"]"));
        assert_eq!(Scanner::decode("\"\\ud800\""), None);
        assert_eq!(Scanner::decode("\"\"").as_deref(), Some(""));
    }
}
