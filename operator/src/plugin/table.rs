//! Columns, as kubectl prints them.

/// Prints rows under a head, each column as wide as its widest cell.
pub fn print(head: &[&str], rows: &[Vec<String>]) {
    println!("{}", lines(head, rows).join("\n"));
}

fn lines(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let all = || std::iter::once(&head).chain(rows);
    let width = |column: usize| all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let padded = |(column, cell): (usize, &String)| format!("{cell:<width$}", width = width(column).unwrap_or(0));
    let line = |row: &Vec<String>| row.iter().enumerate().map(padded).collect::<Vec<_>>().join("   ");
    all().map(|row| line(row).trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "long".to_owned()], vec!["abc".to_owned(), "x".to_owned()]];
        assert_eq!(lines(&["N", "V"], &rows), ["N     V", "a     long", "abc   x"]);
    }
}
