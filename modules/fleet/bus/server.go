// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"weir/internal/fault"
)

// ServerConfig describes an embedded NATS server.
type ServerConfig struct {
	Fleet  string
	Dir    string // of the authority, the users and the JetStream store
	Listen string // HOST:PORT for hosts and operators
	// Node, Cluster and Peers are for a cluster: a name of its own, HOST:PORT for the other
	// servers, and theirs. All servers have copies of the same authority and users.
	Node    string
	Cluster string
	Peers   []string
	Log     *slog.Logger
}

// Server is an embedded NATS server.
type Server struct {
	config  ServerConfig
	nats    *server.Server
	options *server.Options
	self    nkeys.KeyPair // of this process's connection
	read    []byte        // content of the users' file

	hosts     map[string]string    // by public key; operators are absent
	suspended map[string]time.Time // end by public key
	stale     bool                 // the suspended users have changed since the last Reload
}

// maxPayload fits the members of 30,000 hosts.
const maxPayload = 8 << 20

// Start prepares the folder, starts the server and waits until it accepts connections.
func Start(c ServerConfig) (*Server, error) {
	if err := CheckName("fleet", c.Fleet); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of the fleet: %w", err)
	}
	if err := makeAuthority(c.Dir); err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	if err := makeOperator(c); err != nil {
		return nil, err
	}
	s := &Server{config: c, suspended: map[string]time.Time{}}
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

// makeOperator makes the credentials of the first operator.
func makeOperator(c ServerConfig) error {
	path := filepath.Join(c.Dir, operatorFile)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	operator, err := Enroll(c.Dir, c.Fleet, "")
	if err != nil {
		return err
	}
	return operator.Write(path)
}

func (s *Server) start() (err error) {
	if s.self, err = nkeys.CreateUser(); err != nil {
		return err
	}
	if s.options, err = s.describe(); err != nil {
		return err
	}
	if s.nats, err = server.NewServer(s.options); err != nil {
		return fmt.Errorf("start NATS server: %w", err)
	}
	s.nats.SetLoggerV2(&logger{log: s.config.Log}, false, false, false)
	s.nats.Start()
	const patience = 10 * time.Second
	if !s.nats.ReadyForConnections(patience) {
		s.Close()
		return fault.New(fault.Failed, "choose another address with --listen, and see the log", "the NATS server does not accept connections at %s after %v", s.config.Listen, patience)
	}
	return nil
}

// describe makes the server's options.
func (s *Server) describe() (*server.Options, error) {
	host, port, err := split(s.config.Listen)
	if err != nil {
		return nil, err
	}
	tls, err := serverTLS(s.config.Dir)
	if err != nil {
		return nil, err
	}
	o := &server.Options{
		ServerName: s.config.Node, Host: host, Port: port, TLS: true, TLSConfig: tls, NoSigs: true, MaxPayload: maxPayload,
		JetStream: true, StoreDir: filepath.Join(s.config.Dir, "jetstream"), SyncAlways: true, DisableJetStreamBanner: true,
	}
	if o.Nkeys, err = s.users(); err != nil {
		return nil, err
	}
	if s.config.Cluster != "" {
		if o.Cluster.Host, o.Cluster.Port, err = split(s.config.Cluster); err != nil {
			return nil, err
		}
		o.Cluster.Name = s.config.Fleet
		mutual := tls.Clone()
		if mutual.RootCAs, err = roots(s.config.Dir); err != nil {
			return nil, err
		}
		mutual.ClientCAs, mutual.ServerName, mutual.ClientAuth = mutual.RootCAs, serverName, requireCertificate
		o.Cluster.TLSConfig = mutual
		for _, peer := range s.config.Peers {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: peer})
		}
	}
	return o, nil
}

// users returns the users of the folder, and this process with all rights.
func (s *Server) users() ([]*server.NkeyUser, error) {
	text, err := os.ReadFile(filepath.Join(s.config.Dir, usersFile))
	if err != nil {
		return nil, fmt.Errorf("read users of the fleet: %w", err)
	}
	all, err := parseUsers(s.config.Dir, text)
	if err != nil {
		return nil, err
	}
	s.read = text
	self, err := s.self.PublicKey()
	if err != nil {
		return nil, err
	}
	keys := []*server.NkeyUser{{Nkey: self}}
	s.hosts = map[string]string{}
	for _, u := range all {
		if u.Host != "" {
			s.hosts[u.Key] = u.Host
		}
		if s.suspended[u.Key].IsZero() {
			keys = append(keys, &server.NkeyUser{Nkey: u.Key, Permissions: u.permissions(s.config.Fleet)})
		}
	}
	return keys, nil
}

// Reload reads the users again if their file or the suspensions have changed. It ends connections
// of removed users.
func (s *Server) Reload() error {
	// Two changes may have the same modification time.
	text, err := os.ReadFile(filepath.Join(s.config.Dir, usersFile))
	if err != nil || bytes.Equal(text, s.read) && !s.stale {
		return err
	}
	next := s.options.Clone()
	if next.Nkeys, err = s.users(); err != nil {
		return err
	}
	if err := s.nats.ReloadOptions(next); err != nil {
		return fmt.Errorf("reload users: %w", err)
	}
	s.options, s.stale = next, false
	return nil
}

// Address returns the address at which hosts connect.
func (s *Server) Address() string { return s.nats.Addr().String() }

// Clients returns the number of connections.
func (s *Server) Clients() int { return s.nats.NumClients() }

// Connect connects this process with all rights.
func (s *Server) Connect() (*nats.Conn, error) {
	public, err := s.self.PublicKey()
	if err != nil {
		return nil, err
	}
	pool, err := roots(s.config.Dir)
	if err != nil {
		return nil, err
	}
	return nats.Connect("tls://"+s.Address(), nats.InProcessServer(s.nats), nats.Nkey(public, s.self.Sign), nats.Secure(clientTLS(pool)), nats.MaxReconnects(-1))
}

// Close stops the server.
func (s *Server) Close() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}

// CheckAddress rejects a text that is not an address and port.
func CheckAddress(address string) error {
	_, _, err := split(address)
	return err
}

func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fault.New(fault.Usage, "write it as 127.0.0.1:4222 or [::]:4222", "%q is not an address and port", address)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}
