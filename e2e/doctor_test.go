// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"weir/kernel/testutil"
)

// A process without rights gets an error about rights, and not about missing kernel features.
func TestDoctorTellsRightsFromFeatures(t *testing.T) {
	testutil.NeedRoot(t)
	const nobody = 65534
	type feature struct{ Group, Name, State, Error string }
	doctor := func(attributes *syscall.SysProcAttr) map[string]feature {
		t.Helper()
		command := exec.Command(binary, "doctor", "--format", "json")
		command.Dir, command.SysProcAttr = "/", attributes
		text, err := command.Output()
		var ended *exec.ExitError // with 4, if rights are missing
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		var told struct{ Features []feature }
		if err := json.Unmarshal(text, &told); err != nil {
			t.Fatal(err)
		}
		all := map[string]feature{}
		for _, f := range told.Features {
			all[f.Group+"/"+f.Name] = f
		}
		return all
	}
	root := doctor(nil)
	for who, attributes := range map[string]*syscall.SysProcAttr{
		"a user": {Credential: &syscall.Credential{Uid: nobody, Gid: nobody}},
		"root of a user namespace": {Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, Credential: &syscall.Credential{},
			UidMappings: []syscall.SysProcIDMap{{HostID: nobody, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: nobody, Size: 1}}},
	} {
		user, refused := doctor(attributes), 0
		for name, had := range root {
			switch has := user[name]; {
			case had.State == "available" && has.State == "missing":
				t.Errorf("%s is there, and %s is told that it is missing: %s", name, who, has.Error)
			case had.State == "available" && has.State == "not permitted":
				refused++
			}
		}
		if refused == 0 || len(user) != len(root) {
			t.Errorf("of %d features %d are told to %s, %d as not permitted", len(root), len(user), who, refused)
		}
	}
}
