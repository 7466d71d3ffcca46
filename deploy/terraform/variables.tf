variable "cluster" {
  description = "Cluster of Weirkeeper."
  type        = string
}

variable "pool" {
  description = "Pool of Weirkeeper. The Auto Scaling group has this name after that of the cluster."
  type        = string
}

variable "image_id" {
  description = "Image of the machines, with the AWS CLI if the user data installs from a bucket."
  type        = string
}

variable "instance_type" {
  description = "Type of the machines."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the machines, in several zones."
  type        = list(string)
}

variable "security_group_ids" {
  description = "Security groups of the machines. They reach NATS, STS and the buckets."
  type        = list(string)
}

variable "isolation_security_group" {
  description = "Security group without rules for fencing by NETWORK. Empty: the policy does not allow it."
  type        = string
  default     = ""
}

variable "user_data" {
  description = "User data of the machines: docs/guide-aws.md has an example."
  type        = string
}

variable "min_size" {
  description = "Lower bound of the group."
  type        = number
  default     = 0
}

variable "max_size" {
  description = "Upper bound of the group: at least max_capacity of the pool file."
  type        = number
}

variable "signals_bucket" {
  description = "Bucket of the releases: aws.signals_bucket of weir.yaml."
  type        = string
}

variable "signals_prefix" {
  description = "Prefix in the bucket of the releases, without a slash at its end. Empty: the whole bucket."
  type        = string
  default     = ""
}

variable "packages_bucket" {
  description = "Bucket that the user data installs from. The bucket of the releases may be the same."
  type        = string
}

variable "statements" {
  description = "Statements of the IAM policy, by Sid. The README of deploy/aws lists what each is for. Without fleets, leave theirs out."
  type        = list(string)
  default = [
    "Read", "ScaleTaggedGroups", "ReadHealth", "ReadConsole", "HealTaggedGroups", "NoteHealing", "RepairInstancesOfGroups",
    "ReplaceRootVolumes", "NoteRepairsOfGroups", "NoteVolumeTasks", "FenceTraffic", "Warnings", "Releases", "ListReleases",
  ]
}
