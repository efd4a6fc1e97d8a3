job "sites" {
  group "sites" {
    count = 1 # store/file is for one process; with store/etcd or store/postgres: as many as you like

    network {
      port "http" {}
    }

    volume "data" {
      type   = "host"
      source = "sites"
    }

    task "sites" {
      driver       = "exec"
      kill_signal  = "SIGTERM"
      kill_timeout = "30s" # more than Manager.StopTimeout

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      config {
        command = "sites"
        args    = ["-db", "file:/data/sites.db", "-listen", "${NOMAD_ADDR_http}"]
      }

      service {
        name     = "sites"
        port     = "http"
        provider = "nomad"

        check {
          type     = "http"
          path     = "/readyz"
          interval = "10s"
          timeout  = "2s"
        }
      }
    }
  }
}
