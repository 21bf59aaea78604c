// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/core/daemon"
	"weir/internal/fault"
)

// DaemonCommand returns the command weir daemon.
func DaemonCommand(a *cli.App) *cobra.Command {
	service := &daemon.Service{}
	command := &cobra.Command{
		Use:   "daemon [POLICY]",
		Short: "Keep a policy active: follow its file, cgroups and devices; serve metrics and an API",
		Long: `Apply a policy and keep it active: follow changes of the file, and cgroups, units and
devices that appear and disappear. If the file has a mistake, the daemon reports it and
changes nothing. SIGHUP applies the file again. Without POLICY, the daemon uses
/etc/weir/policy.yaml.

The daemon runs in the foreground and supports systemd's Type=notify and WatchdogSec.
The limits stay active after the daemon has ended, even after SIGKILL. "weir status"
then shows when the daemon ended, and "weir release" ends the limits. A manual release
or apply stays in effect until the file changes.

Only its owner can use the socket of the API, which also serves metrics. --listen
additionally serves metrics on a loopback address, readable by every user of the host.`,
		Example: `  weir daemon /etc/weir/policy.yaml
  weir daemon --listen 127.0.0.1:9464 policy.yaml      metrics for Prometheus
  curl --unix-socket /run/weir/api.sock http://weir/v1/status`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: complete.Policy,
		RunE: func(command *cobra.Command, args []string) (err error) {
			if service.Look < minLook || service.Look > time.Hour {
				return fault.New(fault.Usage, "write --look 5s", "--look %s is outside %s to 1h", service.Look, minLook)
			}
			if service.Policy, err = filepath.Abs(cli.PolicyFile(args)); err != nil {
				return fmt.Errorf("find policy: %w", err)
			}
			if service.Engine, err = a.Engine(); err != nil {
				return err
			}
			level := slog.LevelInfo
			if a.Quiet {
				level = slog.LevelWarn
			}
			service.Log = slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: level}))
			boundMemory()
			reload := make(chan os.Signal, 1)
			signal.Notify(reload, syscall.SIGHUP)
			defer signal.Stop(reload)
			service.Reload = reload
			return service.Run(command.Context())
		},
	}
	flags := command.Flags()
	flags.BoolVar(&service.Shadow, "shadow", false, "put all scopes in shadow mode: only count")
	flags.StringVar(&service.Socket, "socket", "/run/weir/api.sock", "unix socket of the API and the metrics, in an existing folder; empty for none")
	flags.StringVar(&service.Metrics, "listen", "", "additional loopback address for /metrics, such as 127.0.0.1:9464")
	flags.StringVar(&service.Textfile, "textfile", "", "file for the metrics, written every second, for node_exporter; remains after the daemon has ended")
	flags.DurationVar(&service.Look, "look", 5*time.Second, "interval of full resyncs, in case an event was lost; 100ms to 1h")
	return command
}

// daemonMemory is the memory target of the garbage collector, daemonGarbage its growth in percent.
// The pages of the program, about 37 MB, come on top. A large policy takes more.
const daemonMemory, daemonGarbage = 57 << 20, 50

// boundMemory applies the targets unless GOMEMLIMIT and GOGC are set.
func boundMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(daemonMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(daemonGarbage)
	}
}

// minLook bounds the CPU time of resyncs.
const minLook = 100 * time.Millisecond
