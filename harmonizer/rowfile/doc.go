// Package rowfile is the expected state in a file, for example beside other configuration:
//
//	apps:
//	  web: {instances: 5, pool: default, command: ./serve, cpus: 0.5, mem: 256}
//	  job: {instances: 0, pool: default, command: ./work, state: STOPPED}
//
// The file is YAML, or the same in JSON, which may have more entries. A row has the fields of
// api.App under their names, without restarted and history; instances and pool are required.
// The default version is a hash of what makes up one copy.
//
// Decode decodes such a file for "weir app apply", and returns all its mistakes.
//
// The package watches the file. The file may be replaced by a rename, by a changed link (as
// Kubernetes does), or written in place. It is read only when it has not changed for a moment
// and no process has it open for writing, so a half-written file deletes nothing. If the file
// is missing or invalid, its last valid content stays valid for Config.ValidFor. An invalid
// row leaves only that app unchanged.
//
//	f, err := rowfile.New(rowfile.Config{Path: "apps.yaml"}, log)
//	err = f.Watch(ctx, report)
//
// Watch runs once at a time; Refresh may be called concurrently.
package rowfile
