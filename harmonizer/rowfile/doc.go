// Package rowfile is the expected state in a file, for who keeps it beside other
// configuration:
//
//	apps:
//	  web: {instances: 5, pool: default, command: ./serve, cpus: 0.5, mem: 256}
//	  job: {instances: 0, pool: default, command: ./work, state: STOPPED}
//
// in YAML, or the same in JSON, which may be longer. A row has the fields of
// message.App under their names; instances and pool must be there. A version
// that is left out stands for the command and the resources of one copy.
//
// The file is watched. It may be replaced by a rename, by a link that points
// elsewhere (as Kubernetes does it), or written in place: it is read only when
// it has come to rest and nobody has it open for writing, so that half a file
// deletes nothing. A file that is gone, or that cannot be understood, leaves
// what it said last valid for Config.ValidFor; a row that cannot be understood
// leaves that one app as it was.
//
//	f, err := rowfile.New(rowfile.Config{Path: "apps.yaml"}, log)
//	err = f.Watch(ctx, tell)
//
// Watch runs once at a time; Refresh may be called concurrently.
package rowfile
