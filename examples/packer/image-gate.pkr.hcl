# An Ubuntu image on EC2 that is not made if the gate objects to it.
#
# The gate runs on the machine the image is made of, twice: its files, with the lists kept beside this template, then
# ten minutes of doing nothing, in which memory cgroups may not grow and no service may loop. Exit code 1 (an objection)
# and 3 (something could not be seen) both stop the build.
#
# packer init . && packer build .

packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.0"
    }
  }
}

source "amazon-ebs" "node" {
  ami_name      = "node-{{timestamp}}"
  instance_type = "m6i.large"
  region        = "us-east-1"
  ssh_username  = "ubuntu"
  source_ami_filter {
    owners      = ["099720109477"]
    most_recent = true
    filters = {
      name                = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"
      virtualization-type = "hvm"
    }
  }
}

build {
  sources = ["source.amazon-ebs.node"]

  # … what makes it a node comes first …

  provisioner "file" {
    sources     = ["allow.toml", "baseline.toml"]
    destination = "/tmp/"
  }

  # What the gate runs from is gone again before the image is taken.
  provisioner "shell" {
    inline = [
      "python3 -m venv /tmp/zombiescope && /tmp/zombiescope/bin/pip install --quiet zombiescope",
      "sudo /tmp/zombiescope/bin/zombiescope gate --allow /tmp/allow.toml --baseline /tmp/baseline.toml",
      "sudo /tmp/zombiescope/bin/zombiescope gate --soak 10 --max-memcg 1000 --baseline /tmp/baseline.toml",
      "rm -rf /tmp/zombiescope /tmp/allow.toml /tmp/baseline.toml",
    ]
  }
}
