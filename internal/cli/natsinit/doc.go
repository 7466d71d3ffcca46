// Package natsinit writes what the NATS servers of a site need: configuration, certificates, and the keys of all roles.
//
//	plan, err := natsinit.Prepare(natsinit.Options{Folder: dir, Servers: ..., Cluster: "prod", Pools: ..., Now: time.Now()})
//	plan.Files       // what exists, and what Write makes or changes
//	err = plan.Write()
//
// # The folder
//
//	site.json                 servers, clusters, pools and nodes
//	ca.crt, ca.key            certificate authority; no ca.key with certificates of another authority
//	issuer.nk                 account key that signs the users of verified agents
//	roles/USER.nk             key of a user, such as roles/prod.pool.web.nk, and of the administrator, roles/sys.nk
//	roles/USER.nk.old         former key, which the servers accept too
//	roles/USER.nk.revoked     revoked key, which the servers refuse from their next reload on; also roles/USER.nk.old.revoked
//	daemons.json              public keys of the daemons of pools, for "weir auth"; only if it verifies agents
//	servers/NAME/...          files of a server: nats.conf, accounts.conf, ca.crt, server.crt, server.key
//
// A later run reads the folder, adds the missing parts, and keeps each key. It replaces keys only
// if Options.Force is set, and renames those of Options.Revoke. Files with secrets are readable for their owner only.
//
// A process may die at any instruction. site.json is written first and the configuration last,
// so the next run completes the folder. Two runs at the same time exclude each other.
package natsinit
