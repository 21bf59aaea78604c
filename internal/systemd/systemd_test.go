// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"weir/kernel/testutil"

	"github.com/godbus/dbus/v5"
)

const unitPath = manager + "/unit/"

// fake is a service manager on the test's own socket: it knows some units' cgroups, by the end of
// their object's path.
type fake struct {
	groups   map[string]any
	listener net.Listener
}

func serve(t *testing.T, groups map[string]any) (*fake, *Manager) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "private")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	f := &fake{groups: groups, listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.answer(conn)
		}
	}()
	return f, &Manager{addresses: []string{"unix:path=" + path}}
}

// answer is the server's side of the protocol: authentication in lines of text, then messages. It
// processes the first message only when another one arrives, like systemd after reading both at
// once.
func (f *fake) answer(conn net.Conn) {
	var kept *dbus.Message
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for line := ""; line != "BEGIN"; {
		text, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.Trim(text, "\x00\r\n")
		switch {
		case line == "AUTH":
			fmt.Fprint(conn, "REJECTED EXTERNAL\r\n")
		case strings.HasPrefix(line, "AUTH EXTERNAL"):
			fmt.Fprint(conn, "OK 0123456789abcdef0123456789abcdef\r\n")
		case line != "BEGIN":
			fmt.Fprint(conn, "ERROR\r\n")
		}
	}
	for {
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		if kept == nil {
			kept = call
			continue
		}
		call, kept = kept, call
		reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(call.Serial())}}
		if value := f.value(call); value != nil {
			reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(value))
			reply.Body = []any{value}
		} else {
			reply.Type = dbus.TypeError
			reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant("org.freedesktop.systemd1.NoSuchUnit")
		}
		if err := reply.EncodeTo(conn, binary.LittleEndian); err != nil {
			return
		}
	}
}

// value returns the result of a call; nil for an unknown unit.
func (f *fake) value(call *dbus.Message) any {
	switch call.Headers[dbus.FieldMember].Value() {
	case "GetUnit":
		name := call.Body[0].(string)
		if _, known := f.groups[name]; !known {
			return nil
		}
		return dbus.ObjectPath(unitPath + strings.ReplaceAll(name, ".", "_2e"))
	case "Ping":
		return true // unread
	case "Get":
		object := string(call.Headers[dbus.FieldPath].Value().(dbus.ObjectPath))
		name := strings.ReplaceAll(strings.TrimPrefix(object, unitPath), "_2e", ".")
		if call.Body[0] != destination+".Service" && call.Body[0] != destination+".Slice" || call.Body[1] != "ControlGroup" {
			return nil
		}
		return dbus.MakeVariant(f.groups[name])
	}
	return nil
}

func TestWhereSystemdHasPutAUnit(t *testing.T) {
	f, m := serve(t, map[string]any{
		"nginx.service": "/system.slice/nginx.service", "idle.service": "", "batch.slice": "/batch.slice",
		"odd.service": "/system.slice/../../etc", "number.service": uint32(7),
	})
	for _, test := range []struct {
		unit, want string
		fails      bool
	}{
		{"nginx.service", "/system.slice/nginx.service", false},
		{"batch.slice", "/batch.slice", false},
		{"idle.service", "", false},
		{"unknown.service", "", false},
		{"odd.service", "", true},
		{"number.service", "", true},
		{"nginx.service", "/system.slice/nginx.service", false},
	} {
		if got, err := m.ControlGroup(test.unit); got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %q, %v", test.unit, got, err)
		}
	}
	_ = f.listener.Close()
	_ = m.conn.Close()
	if _, err := m.ControlGroup("nginx.service"); err == nil {
		t.Error("nobody answers, and there is no error")
	}
}

func TestNobodyAnswers(t *testing.T) {
	m := &Manager{addresses: []string{"unix:path=" + filepath.Join(t.TempDir(), "none")}}
	if _, err := m.ControlGroup("nginx.service"); !errors.Is(err, ErrNobody) {
		t.Error(err)
	}
}

// The host's own systemd, if it has one.
func TestTheHostsSystemd(t *testing.T) {
	m := Booted()
	if m == nil {
		testutil.Need(t, "systemd", errors.New("systemd does not run this host"))
	}
	for unit, want := range map[string]string{"init.scope": "/init.scope", "system.slice": "/system.slice", "weir-no-such.service": ""} {
		t.Run(unit, func(t *testing.T) {
			if got, err := m.ControlGroup(unit); err != nil || got != want {
				t.Errorf("%s: %q, %v; want %q", unit, got, err, want)
			}
		})
	}
}
