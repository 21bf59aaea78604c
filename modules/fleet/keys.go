// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"weir/core/policy"
	"weir/internal/fault"
	"weir/internal/yamlfile"
	"weir/modules/fleet/bus"
)

const moduleName = "fleet"

// item is the item of the host; the module limit requires it for shared limits.
const item = "fleet"

// sectionKeys is the module's section of a policy file.
type sectionKeys struct {
	Fleet *fleetKeys `yaml:"fleet" doc:"Fleet of hosts with shared limits: scopes with the key 'shared' get their rates from the fleet."`
}

type fleetKeys struct {
	yamlfile.Fields `yaml:"-"`
	Name            yamlfile.Text   `yaml:"name,required" doc:"Name of the fleet: letters, digits, _ and -."`
	Servers         []yamlfile.Text `yaml:"servers,required" doc:"Addresses and ports of the fleet's servers, such as 10.0.0.1:4222."`
	Host            yamlfile.Text   `yaml:"host" doc:"Name of this host in the fleet; must match its credentials. Default: the hostname."`
	Credentials     yamlfile.Text   `yaml:"credentials,required" doc:"Absolute path of the file that 'weir fleet enroll' wrote for this host."`
}

func grammar() policy.Grammar {
	return policy.Grammar{Module: moduleName, Section: sectionKeys{}, Read: read}
}

// Treatment is the membership of this host in a fleet.
type Treatment struct {
	Fleet       string   `json:"fleet"`
	Host        string   `json:"host"`
	Servers     []string `json:"servers"`
	Credentials string   `json:"credentials"` // path
}

// Summary describes the membership in one line.
func (t *Treatment) Summary() string {
	return fmt.Sprintf("host %s of fleet %s at %s", t.Host, t.Fleet, strings.Join(t.Servers, ", "))
}

func read(d *policy.Draft) {
	section, _ := d.Section.(*sectionKeys)
	if section == nil || section.Fleet == nil || section.Fleet.Flawed() {
		return
	}
	k := section.Fleet
	t := &Treatment{Fleet: k.Name.Value, Host: k.Host.Value, Credentials: k.Credentials.Value}
	complain := func(key string, err error) {
		if err != nil {
			d.ComplainAt(k.At(key), fault.Advice(err), "fleet.%s: %v", key, err)
		}
	}
	complain("name", bus.CheckName("fleet", t.Fleet))
	if t.Host == "" {
		t.Host, _ = os.Hostname()
	}
	complain("host", bus.CheckName("host", t.Host))
	if !filepath.IsAbs(t.Credentials) {
		complain("credentials", fault.New(fault.Usage, "write an absolute path: the daemon has another folder", "%q is not absolute", t.Credentials))
	}
	if len(k.Servers) == 0 {
		complain("servers", fault.New(fault.Usage, "write the address of 'weir fleet serve', as [10.0.0.1:4222]", "no server is given"))
	}
	for _, s := range k.Servers {
		if _, _, err := net.SplitHostPort(s.Value); err != nil {
			d.ComplainAt(s.Place, "write it as 10.0.0.1:4222", "fleet.servers: %q is not an address and port", s.Value)
		}
		t.Servers = append(t.Servers, s.Value)
	}
	d.Declare(item, k.Fields, t)
}
