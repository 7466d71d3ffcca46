locals {
  region  = data.aws_region.current.name
  account = data.aws_caller_identity.current.account_id
  name    = "weir-${var.cluster}-${var.pool}"
  tag     = "${var.cluster}/${var.pool}"

  # The objects of the releases.
  releases = join("/", compact([var.signals_bucket, var.signals_prefix, "*"]))

  # The one policy of deploy/aws, with the names of this pool.
  policy = jsondecode(replace(replace(replace(replace(replace(replace(
    file("${path.module}/../aws/iam-policy.json"),
    "SIGNALS_BUCKET/SIGNALS_PREFIX/*", local.releases),
    "SIGNALS_BUCKET", var.signals_bucket),
    "ISOLATION_GROUP", var.isolation_security_group),
    "QUEUE", aws_sqs_queue.notices.name),
    "REGION", local.region),
    "ACCOUNT", local.account))

  fences = var.isolation_security_group == "" ? [] : ["FenceNetwork", "FenceNetworkOfGroups", "FenceNetworkByGroup"]

  only_ec2 = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

# The role of the hosts of weir bootstrap.
resource "aws_iam_role" "daemons" {
  name               = "${local.name}-daemons"
  assume_role_policy = local.only_ec2
}

resource "aws_iam_role_policy" "daemons" {
  name = "weir"
  role = aws_iam_role.daemons.id
  policy = jsonencode({
    Version   = local.policy.Version
    Statement = [for s in local.policy.Statement : s if contains(concat(var.statements, local.fences), s.Sid)]
  })
}

resource "aws_iam_instance_profile" "daemons" {
  name = aws_iam_role.daemons.name
  role = aws_iam_role.daemons.name
}

# The role of the machines.
resource "aws_iam_role" "node" {
  name               = "${local.name}-node"
  assume_role_policy = local.only_ec2
}

resource "aws_iam_role_policy" "node" {
  name = "weir"
  role = aws_iam_role.node.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = "s3:GetObject", Resource = ["arn:aws:s3:::${local.releases}", "arn:aws:s3:::${var.packages_bucket}/*"] },
      { Effect = "Allow", Action = "s3:ListBucket", Resource = "arn:aws:s3:::${var.signals_bucket}" },
    ]
  })
}

resource "aws_iam_instance_profile" "node" {
  name = aws_iam_role.node.name
  role = aws_iam_role.node.name
}
