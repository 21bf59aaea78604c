// SPDX-License-Identifier: Apache-2.0

// Package transport carries NETCONF over SSH (RFC 6242): it authenticates users of a file by public
// key or password and hands the subsystem "netconf" to a server. There is no shell, no command, no
// file transfer and no forwarding.
package transport

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/ssh"

	"weir/internal/atomicfile"
	"weir/internal/fault"
	"weir/netconf/access"
	"weir/netconf/server"
)

const (
	handshakeTime  = 20 * time.Second // from the connection to the end of the log-in
	handshakes     = 16               // connections that log in at the same time
	maxConnections = 64
	maxTries       = 3
	failureDelay   = time.Second // before a failed log-in is answered
)

// publicKeys are the signature algorithms; SHA-1 is not among them.
var publicKeys = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512,
}

// HostKey reads the host key, or creates one with mode 0600.
func HostKey(path string) (ssh.Signer, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newHostKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read host key: %w", err)
	}
	if err := privateFile(path); err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("read host key %s: %w", path, err), fault.Usage, "remove the file: the next start makes a new key")
	}
	return signer, nil
}

func newHostKey(path string) (ssh.Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make host key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "weir tester serve")
	if err != nil {
		return nil, fmt.Errorf("make host key: %w", err)
	}
	if err := atomicfile.WriteBytes(path, 0o600, pem.EncodeToMemory(block)); err != nil {
		return nil, fmt.Errorf("make host key: %w", err)
	}
	return ssh.NewSignerFromKey(private)
}

// SSH serves a listener.
type SSH struct {
	Users  *Users
	Key    ssh.Signer
	Server *server.Server
	Log    *slog.Logger
}

// Serve accepts connections until ctx ends, and returns once all have ended.
func (t *SSH) Serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	slots, logins := make(chan struct{}, maxConnections), make(chan struct{}, handshakes)
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept connection: %w", err)
		}
		select {
		case slots <- struct{}{}:
		default:
			t.Log.Warn("too many connections: connection closed", "remote", conn.RemoteAddr().String())
			_ = conn.Close()
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			t.connection(ctx, conn, logins)
		})
	}
}

func (t *SSH) config() *ssh.ServerConfig {
	c := &ssh.ServerConfig{
		MaxAuthTries: maxTries, PublicKeyAuthAlgorithms: publicKeys, ServerVersion: "SSH-2.0-weir",
		PublicKeyCallback: t.byKey, PasswordCallback: t.byPassword,
	}
	c.AddHostKey(t.Key)
	return c
}

var errDenied = errors.New("permission denied")

func (t *SSH) permissions(name string) *ssh.Permissions {
	return &ssh.Permissions{Extensions: map[string]string{"group": t.Users.byName[name].group}}
}

func (t *SSH) byKey(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	wire := key.Marshal()
	if slices.ContainsFunc(t.Users.byName[conn.User()].keys, func(k []byte) bool { return slices.Equal(k, wire) }) {
		return t.permissions(conn.User()), nil
	}
	return nil, errDenied
}

// decoy takes the time of a comparison for users without a password.
var decoy = sync.OnceValue(func() []byte {
	hash, _ := bcrypt.GenerateFromPassword([]byte("decoy"), bcrypt.DefaultCost) // the cost is valid
	return hash
})

func (t *SSH) byPassword(conn ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
	hash := t.Users.byName[conn.User()].password
	real := hash != nil
	if !real {
		hash = decoy()
	}
	if bcrypt.CompareHashAndPassword(hash, password) == nil && real && len(password) > 0 {
		return t.permissions(conn.User()), nil
	}
	t.Log.Warn("log-in failed", "method", "password", "user", conn.User(), "remote", conn.RemoteAddr().String())
	time.Sleep(failureDelay)
	return nil, errDenied
}

// connection logs one client in and serves its channels.
func (t *SSH) connection(ctx context.Context, conn net.Conn, logins chan struct{}) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(handshakeTime)) // an error shows in the handshake
	select {
	case logins <- struct{}{}:
	case <-time.After(handshakeTime):
		return
	case <-ctx.Done():
		return
	}
	client, channels, requests, err := ssh.NewServerConn(conn, t.config())
	<-logins
	if err != nil {
		t.Log.Info("log-in not completed", "remote", conn.RemoteAddr().String(), "error", err)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	go ssh.DiscardRequests(requests)
	peer := server.Peer{
		User:      access.User{Name: client.User(), Groups: []string{client.Permissions.Extensions["group"]}},
		Remote:    conn.RemoteAddr().String(),
		Transport: "netconf-ssh",
	}
	var sessions sync.WaitGroup
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "only sessions with the subsystem netconf are served")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			continue
		}
		sessions.Go(func() { t.channel(ctx, peer, channel, requests, conn) })
	}
	sessions.Wait()
}

// channel waits for the request of the subsystem.
func (t *SSH) channel(ctx context.Context, peer server.Peer, channel ssh.Channel, requests <-chan *ssh.Request, conn net.Conn) {
	defer func() { _ = channel.Close() }()
	timer := time.AfterFunc(handshakeTime, func() { _ = channel.Close() })
	defer timer.Stop()
	for r := range requests {
		isNetconf := r.Type == "subsystem" && len(r.Payload) > 4 && string(r.Payload[4:]) == "netconf"
		_ = r.Reply(isNetconf, nil) // the channel then ends
		if !isNetconf {
			continue
		}
		timer.Stop()
		go ssh.DiscardRequests(requests)
		if err := t.Server.Serve(ctx, peer, &stream{channel, conn}); err != nil && !errors.Is(err, io.EOF) {
			t.Log.Info("session failed", "user", peer.User.Name, "remote", peer.Remote, "error", err)
		}
		return
	}
}

// stream closes the connection along with the channel: a client that does not read blocks the
// channel's own end.
type stream struct {
	ssh.Channel
	conn net.Conn
}

func (s *stream) Close() error {
	closed := make(chan error, 1)
	go func() { closed <- s.Channel.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(time.Second):
		return s.conn.Close()
	}
}
