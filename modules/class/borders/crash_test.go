// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"weir/core/module"
	"weir/kernel/device"
	"weir/kernel/testutil"
)

// A process that applies policies in another namespace until it is killed.
const (
	crashPins = "WEIR_BORDERS_TEST_PINS"
	crashOne  = "  eth1: {from: {10.20.0.0/24: lbe}}\n"
	crashTwo  = "  eth0: {translate: {lbe: CS1}}\n  eth1: {from: {10.20.0.0/24: premium}, translate: {lbe: AF11}}\n"
)

func TestMain(m *testing.M) {
	if pins, asked := os.LookupEnv(crashPins); asked {
		os.Exit(applyForever(pins))
	}
	os.Exit(m.Run())
}

// applyForever applies one policy, the other, none, and so on until it is killed.
func applyForever(pins string) int {
	plane := planeAt(pins)
	var states []module.State
	for _, text := range []string{crashOne, crashTwo} {
		p, err := parse(text)
		if err != nil {
			return 2
		}
		states = append(states, module.State{Host: p.Host})
	}
	states = append(states, module.State{})
	for have := states[2]; ; {
		for _, want := range states {
			if _, err := plane.Apply(have, want); err != nil {
				return 3
			}
			have = want
		}
		_, _ = os.Stdout.WriteString(".")
	}
}

// After kill -9 at any moment the next process completes the change, or removes everything.
func TestKilledAnywhereItIsLedOnOrBack(t *testing.T) {
	s := newStage(t)
	random := testutil.Rand(t)
	fd := taker(t, s.beyond)
	for i := range 12 {
		command := exec.Command("ip", "netns", "exec", s.router.Name, os.Args[0])
		command.Env = append(os.Environ(), crashPins+"="+filepath.Dir(s.plane.host.Devices))
		pipe, err := command.StdoutPipe()
		must(t, err)
		must(t, command.Start())
		_, read := pipe.Read(make([]byte, 1)) // it has passed all states once
		time.Sleep(time.Duration(random.IntN(30_000)) * time.Microsecond)
		must(t, errors.Join(read, command.Process.Kill()))
		if err := command.Wait(); err == nil || !killed(err) {
			t.Fatalf("it ended by itself: %v", err)
		}
		if i%2 == 0 {
			s.apply(t, module.State{}, crashTwo)
			send(t, s.inside, beyond4, 0, 10, nil)
			if got := arrived(t, fd, 1); !bytes.Equal(got, []byte{ef}) {
				t.Fatalf("after kill %d it arrived with %#x, want %#x", i, got, ef)
			}
		}
		if _, err := s.release(); err != nil {
			t.Fatal(err)
		}
		for _, dev := range []string{"eth0", "eth1"} {
			if found, err := device.Attached(s.router, dev, moduleName, s.plane.host.Devices); err != nil || len(found) > 0 {
				t.Fatalf("after kill %d %d programs are at %s, %v", i, len(found), dev, err)
			}
		}
	}
}

func killed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}
