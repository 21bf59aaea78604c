// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/tester/instrument"
	"weir/tester/serve"
	"weir/tester/session"
	"weir/tester/spec"
)

// serveOptions are the flags of weir tester serve.
type serveOptions struct {
	ports                         []string
	users, hostKey, listen, state string
	model                         string
	resume, iKnow                 bool
	maxDuration                   time.Duration
}

func newServeCommand(a *cli.App) *cobra.Command {
	var o serveOptions
	command := &cobra.Command{
		Use:   "serve",
		Short: "Let NETCONF clients drive the tester through the IETF model of network testers",
		Long: `Let NETCONF clients drive the tester over SSH, through the IETF model of network
testers (draft-ietf-bmwg-network-tester-cfg).

Each port has a generator and an analyzer. Traffic starts after the reply to a commit.
It ends at the next change, after total-frames, after --max-duration, or with this
process.

The file of users is YAML with mode 0600. Under users, each name has a group
(admin, operator or viewer) and keys, or a password as a bcrypt hash. A host key
is made at the first start. docs/guides/netconf.md has an example.

Gaps are octets at the port's speed. A device without a speed of its own, such
as veth, needs speed=RATE.`,
		Example: `  sudo weir tester serve --port tx=left:tg0,speed=1Gbit --port rx=right:tg1,speed=1Gbit --users users.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return serveNETCONF(command.Context(), a, o)
		},
	}
	flags := command.Flags()
	flags.StringArrayVar(&o.ports, "port", nil, "NAME=DEVICE[,speed=RATE]. Repeat it for each port")
	flags.StringVar(&o.users, "users", "", "YAML file of accounts with mode 0600.")
	flags.StringVar(&o.hostKey, "host-key", "", "file of the SSH host key. By default it is host_key in the folder of --state, or lies beside the file of --users")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:830", "address and port for SSH. Clients elsewhere need an address that is not loopback")
	flags.StringVar(&o.state, "state", "", "folder of the startup datastore. Without it there is none")
	flags.StringVar(&o.model, "model", serve.Models()[0], "revision of the model: "+strings.Join(serve.Models(), ", "))
	flags.BoolVar(&o.resume, "resume", false, "start the generators of the startup datastore at once. Without it they wait for a commit")
	flags.DurationVar(&o.maxDuration, "max-duration", 24*time.Hour, "time after which a generator stops by itself")
	flags.BoolVar(&o.iKnow, "i-know", false, "use a device even if a default route leaves through it")
	return command
}

func serveNETCONF(ctx context.Context, a *cli.App, o serveOptions) (err error) {
	switch {
	case len(o.ports) == 0:
		return fault.New(fault.Usage, "give --port NAME=DEVICE for each port", "no port is named")
	case o.users == "":
		return fault.New(fault.Usage, "give --users FILE", "no file of accounts is named")
	case o.maxDuration <= 0:
		return fault.New(fault.Usage, "use a duration such as 24h", "--max-duration %s", o.maxDuration)
	}
	if err := privileged(); err != nil {
		return err
	}
	config := serve.Config{
		Users: o.users, HostKey: o.hostKey, Listen: o.listen, StateDir: o.state, Model: o.model, Resume: o.resume, MaxDuration: o.maxDuration,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Ready: func(i serve.Info) { announce(a, i) },
	}
	known := map[string]bool{}
	for _, text := range o.ports {
		port, err := servedPort(text, o.iKnow)
		if port.Namespace != nil {
			defer func() { _ = port.Namespace.Close() }()
		}
		if err != nil {
			return err
		}
		where := fmt.Sprint(port.Device)
		if port.Namespace != nil {
			where = port.Namespace.Name + ":" + where
		}
		if known[port.Name] || known["device "+where] {
			return fault.New(fault.Usage, "name each port and device once", "--port %s repeats a name or a device", text)
		}
		known[port.Name], known["device "+where] = true, true
		config.Ports = append(config.Ports, port)
	}
	return serve.Run(ctx, config)
}

// servedPort reads NAME=DEVICE[,speed=RATE] and checks the device.
func servedPort(text string, iKnow bool) (port instrument.Port, err error) {
	const try = "write --port tx=left:tg0,speed=1Gbit"
	name, rest, found := strings.Cut(text, "=")
	device, options, _ := strings.Cut(rest, ",")
	if !found || name == "" || device == "" {
		return port, fault.New(fault.Usage, try, "--port %q is not NAME=DEVICE", text)
	}
	namespace, device := spec.SplitDevice(device)
	port = instrument.Port{Name: name, Device: device}
	if namespace != "" {
		if port.Namespace, err = netns.Open(namespace); err != nil {
			return port, fault.New(fault.Usage, "run 'ip netns list' to see the network namespaces", "%w", err)
		}
	}
	switch speed, declared := strings.CutPrefix(options, "speed="); {
	case declared:
		rate, err := units.ParseBitRate(speed)
		if err != nil || rate == 0 {
			return port, errors.Join(fault.New(fault.Usage, try, "--port %q: %q is no speed", text, speed), err)
		}
		port.Speed = uint64(rate)
	case options != "":
		return port, fault.New(fault.Usage, try, "--port %q: %q is no option of a port", text, options)
	default:
		if rate, err := ethtool.Speed(port.Namespace, device); err == nil {
			port.Speed = uint64(rate)
		}
	}
	return port, session.CheckPort(session.Port{Namespace: port.Namespace, Device: device}, iKnow)
}

// announce prints address, host key, ports and unsupported features.
func announce(a *cli.App, i serve.Info) {
	fmt.Fprintf(a.Stdout, "NETCONF over SSH on %s\nhost key %s\nmodel %s\n", i.Address, i.Fingerprint, i.Model)
	for _, p := range i.Ports {
		speed := "no speed: gaps in octets are not possible"
		if p.Speed > 0 {
			speed = units.BitRate(p.Speed).String()
		}
		fmt.Fprintf(a.Stdout, "port %s: %s, %s, %s\n", p.Name, p.Device, speed, p.Mechanism)
		if p.Problem != "" {
			fmt.Fprintf(a.Stdout, "  no analyzer: %s\n", p.Problem)
		}
	}
	for _, m := range i.Missing {
		fmt.Fprintf(a.Stdout, "not supported: %s\n", m)
	}
}
