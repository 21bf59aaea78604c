// SPDX-License-Identifier: Apache-2.0

// Package systemd queries the cgroup of a unit from systemd over D-Bus.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	destination = "org.freedesktop.systemd1"
	manager     = "/org/freedesktop/systemd1"
	// patience limits the wait for an answer; systemctl waits as long.
	patience = 25 * time.Second
)

// ErrNobody is returned if no systemd answers.
var ErrNobody = errors.New("no service manager listens")

// addresses lists systemd's private socket (root only, no bus needed) and the system bus. The
// environment is ignored because another user may control it.
var addresses = []string{"unix:path=/run/systemd/private", "unix:path=/run/dbus/system_bus_socket"}

// Manager queries systemd. It connects at the first query, and again after an error. It is safe for
// concurrent use.
type Manager struct {
	// Patience limits the wait for an answer; 0 is 25 s. systemd does not answer during a reload.
	Patience  time.Duration
	addresses []string
	mu        sync.Mutex // guards conn
	conn      *dbus.Conn // nil before the first query and after an error
}

// Booted returns the manager of this host, or nil if systemd did not boot it (sd_booted(3)).
func Booted() *Manager {
	if info, err := os.Stat("/run/systemd/system"); err != nil || !info.IsDir() {
		return nil
	}
	return &Manager{addresses: addresses}
}

// interfaces maps a unit's suffix to the D-Bus interface with the property ControlGroup.
var interfaces = map[string]string{
	".service": "Service", ".slice": "Slice", ".scope": "Scope", ".socket": "Socket", ".mount": "Mount", ".swap": "Swap",
}

// Kind reports whether units with the suffix of the name have a cgroup.
func Kind(unit string) bool { return interfaces[path.Ext(unit)] != "" }

// ControlGroup returns the cgroup of a unit as a path below the root of the hierarchy, or "" if the
// unit does not run or does not exist. Aliases work. The error wraps ErrNobody if no connection is
// possible.
func (m *Manager) ControlGroup(unit string) (group string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		if m.conn, err = m.connect(); err != nil {
			return "", fmt.Errorf("query systemd for unit %s: %w", unit, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.patience())
	defer cancel()
	group, err = controlGroup(ctx, m.conn, unit)
	var answer dbus.Error
	switch {
	case errors.As(err, &answer) && answer.Name == "org.freedesktop.systemd1.NoSuchUnit":
		return "", nil // it is not loaded, so it does not run
	case err != nil:
		_ = m.conn.Close()
		m.conn = nil
		return "", fmt.Errorf("ask systemd for unit %s: %w", unit, err)
	}
	return group, nil
}

func (m *Manager) patience() time.Duration {
	if m.Patience > 0 {
		return m.Patience
	}
	return patience
}

func controlGroup(ctx context.Context, conn *dbus.Conn, unit string) (group string, err error) {
	var object dbus.ObjectPath
	if err := ask(ctx, conn, manager, "Manager.GetUnit", &object, unit); err != nil {
		return "", err
	}
	var value dbus.Variant
	if err := ask(ctx, conn, object, propertyGet, &value, destination+"."+interfaces[path.Ext(unit)], "ControlGroup"); err != nil {
		return "", err
	}
	group, is := value.Value().(string)
	if !is || group != "" && (!strings.HasPrefix(group, "/") || path.Clean(group) != group) {
		return "", fmt.Errorf("its ControlGroup is %s", value)
	}
	return group, nil
}

const (
	propertyGet = "org.freedesktop.DBus.Properties.Get"
	ping        = "org.freedesktop.DBus.Peer.Ping"
	// pingEvery is the interval of pings during the wait for an answer.
	pingEvery = 100 * time.Millisecond
)

// ask calls a method and stores its answer. It sends pings meanwhile: systemd leaves a message that
// it read together with the end of the authentication unprocessed until the next message arrives.
func ask(ctx context.Context, conn *dbus.Conn, object dbus.ObjectPath, method string, answer any, arguments ...any) error {
	if method != propertyGet {
		method = destination + "." + method
	}
	call := conn.Object(destination, object).GoWithContext(ctx, method, 0, make(chan *dbus.Call, 1), arguments...)
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case done := <-call.Done:
			return done.Store(answer)
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			conn.Object(destination, manager).GoWithContext(ctx, ping, 0, make(chan *dbus.Call, 1))
		}
	}
}

// connect connects to the first address that accepts.
func (m *Manager) connect() (*dbus.Conn, error) {
	all := []error{ErrNobody}
	for i, address := range m.addresses {
		conn, err := dbus.Dial(address)
		if err != nil {
			all = append(all, err)
			continue
		}
		if err = m.introduce(conn, i > 0); err == nil {
			return conn, nil
		}
		_ = conn.Close()
		return nil, err
	}
	return nil, errors.Join(all...)
}

// introduce authenticates, and registers with a bus.
func (m *Manager) introduce(conn *dbus.Conn, bus bool) error {
	late := time.AfterFunc(m.patience(), func() { _ = conn.Close() })
	defer late.Stop()
	err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err == nil && bus {
		err = conn.Hello()
	}
	return err
}
