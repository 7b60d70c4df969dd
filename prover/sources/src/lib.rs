//! Fetching inputs and keys: files, HTTP and object stores.
