// SPDX-License-Identifier: Apache-2.0

// Package systemd asks the service manager of the host over D-Bus where it has put a unit.
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
	// patience is how long an answer may take: as long as systemctl waits.
	patience = 25 * time.Second
)

// ErrNobody says that nobody listens who could be asked.
var ErrNobody = errors.New("no service manager listens")

// addresses are where systemd listens: its own socket, for root, which needs no bus, and the
// system's bus. The environment, which may be another user's, has no say in it.
var addresses = []string{"unix:path=/run/systemd/private", "unix:path=/run/dbus/system_bus_socket"}

// Manager asks systemd. It connects when it is first asked, and again after an error. It is safe
// for concurrent use.
type Manager struct {
	// Patience is how long an answer may take; 0 is 25 s. systemd answers nobody while it reloads.
	Patience  time.Duration
	addresses []string
	mu        sync.Mutex // guards conn
	conn      *dbus.Conn // nil before the first question, and after an error
}

// Booted is this host's systemd; nil where the host is not run by one (sd_booted(3)).
func Booted() *Manager {
	if info, err := os.Stat("/run/systemd/system"); err != nil || !info.IsDir() {
		return nil
	}
	return &Manager{addresses: addresses}
}

// interfaces are those that have the property ControlGroup, by the ends of units' names.
var interfaces = map[string]string{
	".service": "Service", ".slice": "Slice", ".scope": "Scope", ".socket": "Socket", ".mount": "Mount", ".swap": "Swap",
}

// Kind says whether a name ends as those of units that have a cgroup do.
func Kind(unit string) bool { return interfaces[path.Ext(unit)] != "" }

// ControlGroup is the cgroup of a unit, as a path below the root of the hierarchy; "" while it has
// none, because it does not run or there is no such unit. Another name of a unit is as good. The
// error wraps ErrNobody where there is no connection.
func (m *Manager) ControlGroup(unit string) (group string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		if m.conn, err = m.connect(); err != nil {
			return "", fmt.Errorf("ask systemd for unit %s: %w", unit, err)
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
	// pingEvery is the time between two pings while an answer is awaited.
	pingEvery = 100 * time.Millisecond
)

// ask calls a method and stores its answer. It pings until that has come: systemd does not look at
// a message that it has read together with the end of the introduction before another one comes.
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

// connect takes the first address at which somebody listens.
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

// introduce says who asks; a bus gives him a name.
func (m *Manager) introduce(conn *dbus.Conn, bus bool) error {
	late := time.AfterFunc(m.patience(), func() { _ = conn.Close() })
	defer late.Stop()
	err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err == nil && bus {
		err = conn.Hello()
	}
	return err
}
