package cloudfoundry

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/report"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/shadow"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Features are the parts of a health manager that a harmonizer has. The zero value has none.
type Features struct {
	// Partition is the cc_partition of the controller, in the names of subjects; default message.Partition.
	Partition string
	// FilterPartition ignores exits and updates of another or no cc_partition. Heartbeats are
	// passed on whole; their receiver filters.
	FilterPartition bool
	Dialect         Dialect // of nudges; default DialectHealth
	// LegacyDEAs receives heartbeats and exits on the subjects that all DEAs share too. A node that
	// is known by its own subject is refused there.
	LegacyDEAs bool
	// Requests receives the requests of package report, and START and STOP objects of other health managers.
	Requests  bool
	Component *Component     // nil: collectors do not find the harmonizer
	Shadow    *shadow.Config // of a harmonizer in shadow mode; nil: nothing is compared
	Users     *Users         // nil: users are not counted
}

// WithDefaults returns a copy in which each zero field has its default.
func (f Features) WithDefaults() Features {
	f.Partition = cmp.Or(f.Partition, message.Partition)
	f.Dialect = cmp.Or(f.Dialect, DialectHealth)
	if f.Shadow != nil {
		f.Shadow = new(f.Shadow.WithDefaults())
	}
	return f
}

// Validate joins all problems.
func (f Features) Validate() error {
	var errs []error
	if f.Dialect != DialectHealth && f.Dialect != DialectCloudController && f.Dialect != DialectBoth {
		errs = append(errs, fmt.Errorf("dialect %q is unknown; use %s, %s or %s", f.Dialect, DialectHealth, DialectCloudController, DialectBoth))
	}
	if !names.Valid(f.Partition) {
		errs = append(errs, fmt.Errorf("partition %q is not a valid name", f.Partition))
	}
	if f.Shadow != nil {
		errs = append(errs, f.Shadow.Validate())
	}
	return errors.Join(errs...)
}

// NodeSubjects returns the subjects of what DEAs report.
func (f Features) NodeSubjects() []string {
	if !f.LegacyDEAs {
		return nil
	}
	return []string{message.SubjectHeartbeat, message.SubjectExited}
}

// NudgeSubjects returns the subjects of nudges of other health managers.
func (f Features) NudgeSubjects() []string {
	if !f.Requests {
		return nil
	}
	return []string{RequestsSubject(f.Partition), requests}
}

// RequestSubjects returns the subjects of requests.
func (f Features) RequestSubjects() []string {
	var subjects []string
	if f.Requests {
		subjects = append(subjects, report.SubjectStatus, report.SubjectHealth, report.SubjectDroplet)
	}
	if f.Component != nil {
		subjects = append(subjects, SubjectComponentDiscover)
	}
	return subjects
}

// Skips reports whether a message of that partition belongs to another controller.
func (f Features) Skips(partition string) bool { return f.FilterPartition && partition != f.Partition }

// Confirms reports whether the receivers of nudges confirm them. Cloud controllers do not.
func (f Features) Confirms() bool { return f.Dialect != DialectCloudController }
