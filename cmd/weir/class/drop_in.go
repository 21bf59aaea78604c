// SPDX-License-Identifier: Apache-2.0

package class

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/internal/fault"
)

// lbeSlice is the slice of units in less than best effort. It is below system.slice, so the
// settings of system.slice still apply, and one scope of a policy matches all its units.
const lbeSlice = "system-lbe.slice"

// dropIn is a systemd drop-in that moves a unit into lbeSlice.
type dropIn struct {
	Format string `json:"format"`
	Unit   string `json:"unit"`
	Path   string `json:"path"` // path of the drop-in
	Text   string `json:"text"`
	Scope  string `json:"scope"` // scope of a policy that sets the class
}

func newDropInCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "drop-in UNIT",
		Short: "Print a systemd drop-in that runs a service as less than best effort",
		Long: `Print a systemd drop-in that moves a service to ` + lbeSlice + `, a child of system.slice.
A single scope in the policy of weir.service then sets the class of all services in the
slice. Their packets have DSCP 1 (RFC 8622), so the queue of this host sends them after
other packets. Their TCP connections use the congestion control scavenger, also for
downloads. The drop-in does not change the command of the service.

The drop-in is printed on standard output, and further steps on standard error.`,
		Example: `  d=/etc/systemd/system/backup.service.d; sudo mkdir -p $d
  weir class drop-in backup.service | sudo tee $d/50-weir-lbe.conf
  sudo systemctl daemon-reload && sudo systemctl restart backup.service`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete.Free,
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := newDropIn(args[0])
			if err != nil {
				return err
			}
			if a.Format == "json" {
				return a.JSON(d)
			}
			fmt.Fprint(a.Stdout, d.Text)
			a.Say("save it as %s; the policy needs this scope, once for all such units:\n  %s", d.Path, d.Scope)
			return nil
		},
	}
}

// unitName matches valid service names of systemd (systemd.unit(5)).
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.@\\-]{1,247}\.service$`)

func newDropIn(unit string) (dropIn, error) {
	if !strings.Contains(unit, ".") {
		unit += ".service"
	}
	if !unitName.MatchString(unit) {
		return dropIn{}, fault.New(fault.Usage, "as in weir class drop-in backup.service", "%q is not a service name", unit)
	}
	return dropIn{
		Format: "weir-drop-in/1",
		Unit:   unit,
		Path:   "/etc/systemd/system/" + unit + ".d/50-weir-lbe.conf",
		Text: `# Less than best effort: this service uses only the bandwidth that other traffic leaves.
# /etc/weir/policy.yaml sets the class of the slice.
[Unit]
Wants=weir.service
After=weir.service

[Service]
Slice=` + lbeSlice + "\n",
		Scope: "lbe: {unit: " + lbeSlice + ", class: lbe, congestion: scavenger, downloads: scavenger}",
	}, nil
}
