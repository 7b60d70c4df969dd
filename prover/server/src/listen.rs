//! From a socket to connections that have shown to speak HTTP/2: bounded in number, each step bounded in time.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tonic::transport::server::Connected;

use crate::config::{Limits, Listen};
use crate::stats::{Entered, Gauge, Stats};
use crate::tls::Tls;

/// Bytes of a unix socket's path, by the kernel's `sockaddr_un` less the final zero.
const SOCKET_PATH: usize = 107;
/// What every HTTP/2 client says first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The answer to those who speak HTTP/1 to the gRPC port.
const WRONG_PORT: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n\
    This port speaks gRPC (proofmill.v1). Status and metrics are on the HTTP port.\n";
/// Rest after an error of `accept`, such as no free file descriptor.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Why a place cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The operating system refuses.
    #[error("cannot listen at {place}: {error}")]
    Io {
        /// Where.
        place: String,
        /// What it said.
        error: io::Error,
    },
    /// Clients could not connect there.
    #[error("cannot listen at unix:{}: paths of sockets hold at most {SOCKET_PATH} bytes; choose a shorter one", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },
    /// Something that is not a socket is in the way.
    #[error("cannot listen at unix:{}: a file that is no socket is in the way; remove it or choose another path", path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
    /// Another process answers there.
    #[error("cannot listen at unix:{}: another process listens there; stop it or choose another path", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
}

/// A bound gRPC listener.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, file: SocketFile },
}

/// A socket file; removed with this value if it is still the same.
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

/// A connection that has sent the HTTP/2 preface.
pub(crate) struct Connection {
    io: Box<dyn Io>,
    /// How much of the preface has been handed on again.
    replayed: usize,
    _permit: OwnedSemaphorePermit,
    _count: Entered,
}

/// What a connection runs over.
trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

impl Listener {
    /// Binds.
    pub async fn bind(listen: &Listen) -> Result<Self, ListenError> {
        let fail = |error| ListenError::Io { place: listen.to_string(), error };
        match listen {
            Listen::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await.map_err(fail)?)),
            Listen::Unix(path) => {
                make_way(path).await?;
                let (listener, file) = bind_private(path).map_err(fail)?;
                Ok(Self::Unix { listener, file })
            }
        }
    }

    /// Where it listens, with the port that was taken.
    pub fn place(&self) -> Listen {
        match self {
            Self::Tcp(listener) => Listen::Tcp(listener.local_addr().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)))),
            Self::Unix { file, .. } => Listen::Unix(file.path.clone()),
        }
    }

    /// Accepts until the receiver is dropped.
    pub async fn accept_into(
        self,
        connections: mpsc::Sender<io::Result<Connection>>,
        tls: Option<Arc<Tls>>,
        limits: Limits,
        stats: Arc<Stats>,
    ) {
        let open = Arc::new(Semaphore::new(limits.grpc_connections));
        let handshakes = Arc::new(Semaphore::new(limits.grpc_handshakes));
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                () = connections.closed() => return,
            };
            let io = match accepted {
                Ok(io) => io,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept gRPC connections for now");
                    tokio::time::sleep(ACCEPT_REST).await;
                    continue;
                }
            };
            // Those who have not shown what they are wait under a bound of their own and cannot keep others out for longer
            // than the handshake's time.
            let Ok(handshake) = Arc::clone(&handshakes).try_acquire_owned() else {
                stats.grpc_refused.add(1);
                continue;
            };
            let (connections, open, stats) = (connections.clone(), Arc::clone(&open), Arc::clone(&stats));
            let (tls, time) = (tls.as_ref().map(|tls| tls.current()), limits.handshake);
            tokio::spawn(async move {
                let shown = timeout(time, show(io, tls)).await;
                drop(handshake);
                let (Ok(Ok(io)), Ok(permit)) = (shown, open.try_acquire_owned()) else {
                    stats.grpc_refused.add(1);
                    return;
                };
                let count = Gauge::enter(&stats, |stats| &stats.grpc_connections);
                // The receiver is gone only at the end of the server.
                let _ = connections.send(Ok(Connection { io, replayed: 0, _permit: permit, _count: count })).await;
            });
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Io>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Self::Unix { listener, .. } => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.replayed < PREFACE.len() {
            let n = buf.remaining().min(PREFACE.len() - self.replayed);
            buf.put_slice(&PREFACE[self.replayed..self.replayed + n]);
            self.replayed += n;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

/// TLS if asked for, then the preface.
async fn show(io: Box<dyn Io>, tls: Option<Arc<rustls::ServerConfig>>) -> io::Result<Box<dyn Io>> {
    let mut io: Box<dyn Io> = match tls {
        Some(config) => Box::new(tokio_rustls::TlsAcceptor::from(config).accept(io).await?),
        None => io,
    };
    let mut seen = [0; PREFACE.len()];
    let mut n = 0;
    while n < seen.len() {
        let more = io.read(&mut seen[n..]).await?;
        if more == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        n += more;
        if seen[..n] != PREFACE[..n] {
            if seen[..n].iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) {
                io.write_all(WRONG_PORT).await?;
                io.shutdown().await?;
                // Closing with unread bytes would reset the connection, and the answer with it. The caller bounds the time.
                while io.read(&mut seen).await? > 0 {}
            }
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not HTTP/2"));
        }
    }
    Ok(io)
}

/// Makes sure that nobody lives at `path`: a socket that nobody answers at is what a killed process left.
async fn make_way(path: &Path) -> Result<(), ListenError> {
    if path.as_os_str().len() > SOCKET_PATH {
        return Err(ListenError::PathTooLong { path: path.to_owned() });
    }
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(ListenError::InTheWay { path: path.to_owned() });
    }
    match timeout(Duration::from_secs(1), UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()), // replaced by the rename below
        _ => Err(ListenError::Taken { path: path.to_owned() }),
    }
}

/// A listener whose file appears at `path` with mode 0600 at once: made in a private directory, then renamed, so that at no
/// moment others may connect.
fn bind_private(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let nursery = parent.join(format!(".{}", std::process::id()));
    match fs::remove_dir_all(&nursery) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir(&nursery)?;
    let made = (|| {
        fs::set_permissions(&nursery, fs::Permissions::from_mode(0o700))?;
        let young = nursery.join("s");
        let listener = UnixListener::bind(&young)?;
        fs::set_permissions(&young, fs::Permissions::from_mode(0o600))?;
        let inode = fs::symlink_metadata(&young)?.ino();
        fs::rename(&young, path)?;
        Ok((listener, SocketFile { path: path.to_owned(), inode }))
    })();
    let _ = fs::remove_dir_all(&nursery);
    made
}
