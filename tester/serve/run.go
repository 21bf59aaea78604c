// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/crypto/ssh"

	"weir/internal/fault"
	"weir/netconf/server"
	"weir/netconf/transport"
	"weir/netconf/tree"
	"weir/tester/instrument"
)

// Config of a tester behind NETCONF.
type Config struct {
	Ports       []instrument.Port
	Users       string // file of accounts
	HostKey     string // file; "" is StateDir/host_key, or the users' file with the ending .host_key
	Listen      string // address and port
	StateDir    string // of the startup datastore; "" is none
	Model       string
	Resume      bool // generators of the startup datastore start at once
	MaxDuration time.Duration
	Log         *slog.Logger
	Ready       func(Info) // called once clients can connect
}

// Info describes a server that is ready.
type Info struct {
	Address     string
	Fingerprint string // of the host key
	Model       string
	Ports       []PortInfo
	Missing     []string
}

// PortInfo describes a port.
type PortInfo struct {
	instrument.Port
	Mechanism string
	Problem   string // why the port has no analyzer
}

func (c *Config) hostKey() string {
	switch {
	case c.HostKey != "":
		return c.HostKey
	case c.StateDir != "":
		return filepath.Join(c.StateDir, "host_key")
	}
	return c.Users + ".host_key"
}

// Run serves until ctx ends. All traffic ends with it.
func Run(ctx context.Context, c Config) (err error) {
	users, err := transport.ReadUsers(c.Users)
	if err != nil {
		return err
	}
	if c.StateDir != "" {
		if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
			return fmt.Errorf("make state folder: %w", err)
		}
	}
	key, err := transport.HostKey(c.hostKey())
	if err != nil {
		return err
	}
	// a sender that waits awake must not take the place of a goroutine that answers
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), runtime.NumCPU()) + len(c.Ports))
	r := &relay{}
	i, err := instrument.Open(c.Ports, instrument.Options{MaxDuration: c.MaxDuration, Events: instrument.Events{Ended: r.ended, Link: r.link}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	s, device, err := c.server(ctx, i)
	if err != nil {
		return err
	}
	defer s.Close()
	r.connect(s, device)
	return c.serve(ctx, s, i, users, key)
}

// server opens the datastores.
func (c *Config) server(ctx context.Context, i *instrument.Instrument) (*server.Server, *Device, error) {
	device, err := NewDevice(i, c.Model, c.StateDir != "", c.Log)
	if err != nil {
		return nil, nil, err
	}
	initial, err := Initial(device.Set)
	if err != nil {
		return nil, nil, err
	}
	config := server.Config{Set: device.Set, Device: device, Initial: initial, StateDir: c.StateDir, Log: c.Log}
	if !c.Resume {
		config.CheckStartup = func(root *tree.Node) *tree.Node { return WithoutGenerators(root) }
	}
	s, err := server.New(ctx, config)
	return s, device, err
}

func (c *Config) serve(ctx context.Context, s *server.Server, i *instrument.Instrument, users *transport.Users, key ssh.Signer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fault.Wrap(fmt.Errorf("listen on %s: %w", c.Listen, err), fault.Failed, "choose another address with --listen")
	}
	if c.Ready != nil {
		c.Ready(c.info(i, listener.Addr().String(), ssh.FingerprintSHA256(key.PublicKey())))
	}
	t := &transport.SSH{Users: users, Key: key, Server: s, Log: c.Log}
	return t.Serve(ctx, listener)
}

func (c *Config) info(i *instrument.Instrument, address, fingerprint string) Info {
	info := Info{Address: address, Fingerprint: fingerprint, Model: c.Model, Missing: Missing()}
	for _, p := range i.Ports() {
		one := PortInfo{Port: p, Mechanism: "generator AF_XDP, analyzer XDP"}
		if s, err := i.State(p.Name); err == nil && s.Missing != nil {
			one.Mechanism, one.Problem = "generator AF_XDP", s.Missing.Error()
		}
		info.Ports = append(info.Ports, one)
	}
	return info
}
